package netns

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

// tunnelSources are the gateway's own addresses: its kernel chooses one by where
// the tunnel goes.
var tunnelSources = []string{"10.1.0.2", "10.2.0.2", "2001:db8:a::2", "2001:db8:b::2"}

// addRemote makes a backend of the zone that its name begins with, on a link of
// its own: the router is between it and the gateway.
func (n *network) addRemote(name string, host int) *backend {
	n.t.Helper()
	b := &backend{name: name, zone: name[:1], ns: testutil.NewNetNS(n.t, name)}
	zone := map[string]int{"a": 1, "b": 2}[b.zone]
	router4, router6 := fmt.Sprintf("10.%d.%d.1", zone, host), fmt.Sprintf("2001:db8:%s:%d::1", b.zone, host)
	b.v4, b.v6 = fmt.Sprintf("10.%d.%d.11", zone, host), fmt.Sprintf("2001:db8:%s:%d::11", b.zone, host)
	testutil.Veth(n.t, b.ns, "eth0", n.router, name)
	for _, a := range []string{router4 + "/24", router6 + "/64"} {
		n.router.AddAddr(name, a)
	}
	for _, a := range []string{b.v4 + "/24", b.v6 + "/64"} {
		b.ns.AddAddr("eth0", a)
	}
	b.ns.AddRoute("0.0.0.0/0", router4)
	b.ns.AddRoute("::/0", router6)
	n.equip(b)
	return b
}

// unwrapper is an `l4lbd decap` on a backend.
type unwrapper struct {
	t     *testing.T
	b     *backend
	cmd   *exec.Cmd
	log   *logBuffer
	ended <-chan error
}

// startDecap runs it until the test ends, and waits until it unwraps.
func (b *backend) startDecap(t *testing.T) *unwrapper {
	t.Helper()
	args := []string{"decap", "--interface", "eth0", "--gateway", strings.Join(tunnelSources, ",")}
	for _, f := range families {
		args = append(args, "--vip", f.vip.String())
	}
	u := &unwrapper{t: t, b: b, log: &logBuffer{}, cmd: exec.Command(executable(), args...)}
	u.cmd.Stderr = u.log
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	u.ended = ended
	started := make(chan struct{})
	done := b.ns.Go(func() error {
		err := u.cmd.Start()
		close(started)
		if err != nil {
			return err
		}
		return u.cmd.Wait()
	})
	<-started
	go func() { ended <- <-done }()
	t.Cleanup(func() {
		u.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s:\n%s", b.name, u.log)
		}
	})
	eventually(t, 20*time.Second, func() error {
		if !strings.Contains(u.log.String(), "unwrapping tunnels") {
			return fmt.Errorf("%s does not unwrap: %s", b.name, u.log)
		}
		return nil
	})
	return u
}

// end sends a signal and waits until the process is gone, if it is not already.
func (u *unwrapper) end(s syscall.Signal) {
	u.t.Helper()
	if u.ended == nil {
		return
	}
	_ = u.cmd.Process.Signal(s) // or it has ended
	select {
	case <-u.ended:
	case <-time.After(15 * time.Second):
		u.t.Errorf("decap on %s does not end", u.b.name)
	}
	u.ended = nil
}

// outcomes are the counters of the decap on a backend.
func (b *backend) outcomes(t *testing.T) map[string]uint64 {
	t.Helper()
	var text []byte
	b.ns.Do(func() (err error) {
		text, err = exec.Command(executable(), "decap", "status", "--interface", "eth0", "-o", "json").Output()
		return err
	})
	var status struct {
		Outcomes []struct {
			Name   string
			Frames uint64
		}
	}
	if err := json.Unmarshal(text, &status); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out := map[string]uint64{}
	for _, o := range status.Outcomes {
		out[o.Name] = o.Frames
	}
	return out
}
