package netns

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"l4lb/internal/testutil"
)

// startDecap unwraps tunnels on a backend until stop.
func startDecap(t *testing.T, b *backend, args ...string) (stop func()) {
	t.Helper()
	log := &logBuffer{}
	cmd := exec.Command(executable(), append([]string{"decap", "--interface", "eth0"}, args...)...)
	cmd.Stderr, cmd.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	ended := b.ns.Go(func() error { // the thread lives as long as the process
		err := cmd.Start()
		started <- err
		if err != nil {
			return err
		}
		return cmd.Wait()
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("decap: %v\n%s", err, log)
		}
	}
	t.Cleanup(stop)
	return stop
}

// A backend that a tunnel leads to needs something that unwraps it, and that knows
// its gateway and its VIPs.
func TestDoctorOnABackendBehindATunnel(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	b := n.backends["a2"]
	args := []string{
		"--backend", "--vip", "192.0.2.10", "--vip", testutil.VIP6.String(), "--gateway", "10.1.0.2",
		"--port", fmt.Sprint(talkPort), "--tunnel", "GUE",
	}
	f := awaitFaults(t, b.ns, args, "tunnel: 192.0.2.10")
	if !strings.Contains(f.What, "nothing unwraps GUE") || !strings.Contains(f.Mend[0], "--gateway 10.1.0.2 --vip 192.0.2.10 --vip 2001:db8:f::10") {
		t.Errorf("found %+v", f)
	}
	stop := startDecap(t, b, "--gateway", "10.1.0.9", "--vip", "192.0.2.10")
	awaitFaults(t, b.ns, args, "tunnel: eth0", "tunnel: 2001:db8:f::10")
	stop()
	stop = startDecap(t, b, "--gateway", "10.1.0.2", "--vip", "192.0.2.10", "--vip", testutil.VIP6.String())
	awaitFaults(t, b.ns, args)
	stop()
	awaitFaults(t, b.ns, args, "tunnel: 192.0.2.10")
}
