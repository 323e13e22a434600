package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnInterfaceHasOneHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "l4lb")
	eth0, eth1 := claim{"interface eth0", "eth0.lock"}, claim{"interface eth1", "eth1.lock"}
	first, err := takeLocks(dir, []claim{eth0}, "/etc/l4lb/first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = takeLocks(dir, []claim{eth1, eth0}, "second.yaml")
	want := fmt.Sprintf("take interface eth0: is held by another process: pid %d with configuration /etc/l4lb/first.yaml", os.Getpid())
	if !errors.Is(err, ErrHeld) || err.Error() != want {
		t.Fatalf("error %v, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, eth1.file)); !os.IsNotExist(err) {
		t.Error("the lock that could be taken was not given back")
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	second, err := takeLocks(dir, []claim{eth1, eth0}, "second.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.release(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("lock files are left: %q", left)
	}
}

// A killed process leaves its file, without a lock on it.
func TestALockFileThatNobodyHoldsIsTaken(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "eth0.lock"), []byte("999999\n/etc/l4lb/a-long-name-of-long-ago.yaml\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := takeLocks(dir, []claim{{"interface eth0", "eth0.lock"}}, "/now.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	text, err := os.ReadFile(filepath.Join(dir, "eth0.lock"))
	if got, want := string(text), fmt.Sprintf("%d\n/now.yaml\n", os.Getpid()); err != nil || got != want {
		t.Errorf("the file says %q, %v, want %q", got, err, want)
	}
}

func TestClaimsNameTheNamespace(t *testing.T) {
	d := &Daemon{cfg: grown(1, 1), opts: Options{BPFDir: "/"}}
	d.cfg.Gateway.Name, d.cfg.Gateway.Interfaces = "gw-1", []string{"eth0", "eth1"}
	claims := d.claims()
	if len(claims) != 3 {
		t.Fatalf("claims: %v", claims)
	}
	namespace := fmt.Sprintf("netns-%d-eth0.lock", inodeOf("/proc/self/ns/net"))
	if claims[0].file != namespace || inodeOf("/proc/self/ns/net") == 0 {
		t.Errorf("first claim %q, want %q", claims[0].file, namespace)
	}
	if !strings.HasSuffix(claims[2].file, "-gw-1.lock") {
		t.Errorf("last claim %q is not the gateway's", claims[2].file)
	}
}
