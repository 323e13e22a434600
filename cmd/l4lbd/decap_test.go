package main

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// decapSite is a backend whose decap accepts one gateway.
func decapSite(t *testing.T) (*site, *process) {
	t.Helper()
	s := newSite(t)
	p := s.start("decap", "--interface", "eth0", "--gateway", "10.1.0.11", "--gateway", "2001:db8:1::/48", "--vip", "192.0.2.10")
	s.eventually("the program is attached", p.logged("unwrapping tunnels"))
	if !s.attached() {
		t.Fatal("it says so, and no program is attached")
	}
	return s, p
}

func TestDecapFromStartToEnd(t *testing.T) {
	s, p := decapSite(t)
	var status int
	var stdout, stderr string
	inside := func(args ...string) {
		s.ns.Do(func() error {
			status, stdout, stderr = l4lbd(t, args...)
			return nil
		})
	}
	inside("decap", "status", "--interface", "eth0", "-o", "json")
	var got decapStatus
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s %s", status, err, stdout, stderr)
	}
	if got.XDPMode != "native" || joinRanges(got.Gateways) != "10.1.0.11/32,2001:db8:1::/48" ||
		joinRanges(got.VIPs) != "192.0.2.10/32" || !strings.Contains(joinRanges(got.Addresses), "10.1.0.1/32") {
		t.Errorf("got %+v", got)
	}
	inside("decap", "status", "--interface", "eth0")
	for _, want := range []string{"10.1.0.11/32", "source_not_listed", "geneve"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table lacks %s:\n%s", want, stdout)
		}
	}
	p.signal(unix.SIGTERM)
	if code := p.wait(); code != 0 || s.attached() || !p.logged("no longer unwrapped")() {
		t.Errorf("exit status %d, attached %v, log:\n%s", code, s.attached(), p.log)
	}
	inside("decap", "status", "--interface", "eth0")
	if status != 1 || !strings.Contains(stderr, "does not run on this interface") {
		t.Errorf("status after the end: %d, %s", status, stderr)
	}
}

func TestKilledDecapLeavesNothing(t *testing.T) {
	s, p := decapSite(t)
	p.signal(unix.SIGKILL)
	p.wait()
	s.eventually("the kernel has detached the program", func() bool { return !s.attached() })
}

func TestDecapRefusesWhatMakesNoSense(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"nobody may send", "--interface eth0", `"gateway" not set`},
		{"no interface", "--gateway 192.0.2.1", `"interface" not set`},
		{"a gateway that is none", "--interface eth0 --gateway gw", "--gateway gw: use an address"},
		{"a range with host bits", "--interface eth0 --gateway 192.0.2.1/24", "host bits are set: use 192.0.2.0/24"},
		{"a VIP that is none", "--interface eth0 --gateway 192.0.2.1 --vip x", "--vip x: use an address"},
		{"an address that is none", "--interface eth0 --gateway 192.0.2.1 --address 192.0.2.0/24", "--address 192.0.2.0/24: use an IP address"},
		{"one port for two", "--interface eth0 --gateway 192.0.2.1 --gue-port 6081", "cannot share port 6081"},
		{"a mode that is none", "--interface eth0 --gateway 192.0.2.1 --xdp-mode fast", "use native or generic"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := l4lbd(t, append([]string{"decap"}, strings.Fields(tt.args)...)...)
			if status != exitUsage || !strings.Contains(stderr, tt.want) {
				t.Errorf("status %d, %q; want %d, %q", status, stderr, exitUsage, tt.want)
			}
		})
	}
}
