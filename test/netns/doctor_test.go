package netns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"l4lb/internal/testutil"
	"l4lb/pkg/doctor"
)

// examine runs the doctor in a namespace.
func examine(ns *testutil.NetNS, args ...string) (*doctor.Report, error) {
	var out, log bytes.Buffer
	cmd := exec.Command(executable(), append([]string{"doctor", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &log
	err := ns.Namespace.Do(cmd.Run)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return nil, fmt.Errorf("doctor: %w: %s", err, &log)
	}
	r := &doctor.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, fmt.Errorf("doctor: %w: %s%s", err, &out, &log)
	}
	if failed := exit != nil; failed == r.Healthy {
		return nil, fmt.Errorf("doctor: healthy is %v, and the exit status says otherwise", r.Healthy)
	}
	return r, nil
}

// faults are the findings that are no good news, each as "check: subject".
func faults(r *doctor.Report) (out []string) {
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Status == doctor.Problem || f.Status == doctor.Warning {
			out = append(out, f.Check+": "+f.Subject)
		}
	}
	return out
}

// awaitFaults examines until exactly those are found, and returns the first. The
// daemon's results are as old as a check interval, so it may take a while.
func awaitFaults(t *testing.T, ns *testutil.NetNS, args []string, want ...string) doctor.Finding {
	t.Helper()
	var r *doctor.Report
	eventually(t, 30*time.Second, func() (err error) {
		if r, err = examine(ns, args...); err != nil {
			return err
		}
		if got := faults(r); strings.Join(got, "\n") != strings.Join(want, "\n") {
			text, _ := json.MarshalIndent(r, "", " ")
			return fmt.Errorf("found %q, want %q: %s", got, want, text)
		}
		return nil
	})
	for _, f := range r.Findings {
		if f.Status == doctor.Problem || f.Status == doctor.Warning {
			return f
		}
	}
	return doctor.Finding{}
}

// mend runs a finding's commands in a namespace, as somebody would who trusts
// the doctor.
func mend(t *testing.T, ns *testutil.NetNS, f doctor.Finding) {
	t.Helper()
	if len(f.Mend) == 0 {
		t.Fatalf("%s: no command mends it", f.What)
	}
	for _, command := range f.Mend {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv(executableDir)+":"+os.Getenv("PATH"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := ns.Namespace.Do(cmd.Run); err != nil {
			t.Fatalf("%s: %v: %s", command, err, &out)
		}
	}
}

// Each thing that is broken is what the doctor names, and nothing else; its
// commands mend it.
func TestDoctorNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := startGateway(n, fourBackends())
	config := []string{"--config", g.configPath()}
	awaitFaults(t, n.gateway, config)
	a2 := n.backends["a2"]
	tests := []struct {
		name  string
		fault func()
		want  string
		on    string
		what  string // in the finding
		// at is where the commands are run; nil: restore mends it.
		at      *testutil.NetNS
		restore func()
	}{
		{
			name:  "the VIP is missing on a backend",
			fault: func() { a2.ns.DelAddr("lo", "192.0.2.10/32") },
			want:  "backendService: a2 (10.1.0.12) at 192.0.2.10", on: "backend a2 (10.1.0.12)",
			what: "its service answers at 10.1.0.12:8080, and not at the VIP: TIMEOUT", at: a2.ns,
		},
		{
			name:  "the IPv6 VIP is missing on a backend",
			fault: func() { a2.ns.DelAddr("lo", testutil.VIP6.String()+"/128") },
			want:  "backendService: a2 (2001:db8:a::12) at 2001:db8:f::10", on: "backend a2 (2001:db8:a::12)",
			what: "not at the VIP", at: a2.ns,
		},
		{
			name:  "a backend answers ARP for the VIP",
			fault: func() { a2.ns.SetSysctl("ipv4/conf/all/arp_ignore", "0") },
			want:  "vipAnswers: 192.0.2.10", on: "backend a2 (10.1.0.12)",
			what: "a2 (10.1.0.12) answers ARP for it", at: a2.ns,
		},
		{
			name:  "a backend has the IPv6 VIP on its interface",
			fault: func() { a2.ns.AddAddr("eth0", testutil.VIP6.String()+"/128") },
			want:  "vipAnswers: 2001:db8:f::10", on: "backend a2 (2001:db8:a::12)",
			what:    "answers neighbour discovery for it",
			restore: func() { a2.ns.DelAddr("eth0", testutil.VIP6.String()+"/128") },
		},
		{
			name:  "the VIP is an address of the gateway's host",
			fault: func() { n.gateway.AddAddr("lo", "192.0.2.10/32") },
			want:  "vipOnHost: 192.0.2.10", what: "it is an address of lo of this host", at: n.gateway,
		},
		{
			name:  "a neighbour is dead",
			fault: func() { a2.ns.LinkDown("eth0") },
			want:  "neighbours: a2 (10.1.0.12)\nneighbours: a2 (2001:db8:a::12)", on: "backend a2 (10.1.0.12)",
			what: "nobody answers for 10.1.0.12 on eth0",
			restore: func() {
				a2.ns.LinkUp("eth0")
				a2.ns.AddAddr("eth0", a2.v6+"/64") // it went with the link
				a2.ns.AddRoute("0.0.0.0/0", "10.1.0.1")
				a2.ns.AddRoute("::/0", "2001:db8:a::1")
			},
		},
		{
			name:  "the service of a backend is sick",
			fault: func() { a2.setSick(true) },
			want:  "backendService: a2 (10.1.0.12) at 192.0.2.10\nbackendService: a2 (2001:db8:a::12) at 2001:db8:f::10",
			on:    "backend a2 (10.1.0.12)", what: "BAD_STATUS", restore: func() { a2.setSick(false) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault()
			f := awaitFaults(t, n.gateway, config, strings.Split(tt.want, "\n")...)
			if !strings.Contains(f.What, tt.what) || f.On != tt.on || f.Why == "" || f.Status != doctor.Problem {
				t.Errorf("found %+v", f)
			}
			if tt.at != nil {
				mend(t, tt.at, f)
			} else {
				tt.restore()
			}
			awaitFaults(t, n.gateway, config)
		})
	}
}

// Without a daemon the doctor makes probes of its own, and leaves nothing behind.
func TestDoctorWithoutADaemon(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := newGateway(n, fourBackends())
	config := []string{"--config", g.configPath()}
	before := traces(t, n.gateway)
	awaitFaults(t, n.gateway, config)
	a2 := n.backends["a2"]

	a2.ns.DelAddr("lo", "192.0.2.10/32")
	f := awaitFaults(t, n.gateway, config, "backendService: a2 (10.1.0.12) at 192.0.2.10")
	mend(t, a2.ns, f)
	awaitFaults(t, n.gateway, config)

	foreign := attachForeign(t, n.gateway, "eth0")
	f = awaitFaults(t, n.gateway, config, "xdp: eth0")
	if !strings.Contains(f.What, fmt.Sprintf("program %d (foreign)", foreign)) {
		t.Errorf("the program is not named: %s", f.What)
	}
	mend(t, n.gateway, f)
	awaitFaults(t, n.gateway, config)

	n.gateway.LinkDown("eth0")
	f = awaitFaults(t, n.gateway, config, "interface: eth0")
	mend(t, n.gateway, f)
	if link, err := n.gateway.Link("eth0"); err != nil || link.OperState != netlink.OperUp {
		t.Errorf("eth0 is %v, %v", link.OperState, err)
	}
	if after := traces(t, n.gateway); after != before {
		t.Errorf("left behind: %s\nbefore: %s", after, before)
	}
}

// On a backend each thing that must be so is looked at.
func TestDoctorOnABackend(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	b := n.backends["a2"]
	args := []string{"--backend", "--vip", "192.0.2.10", "--vip", testutil.VIP6.String(), "--gateway", "10.1.0.2", "--port", fmt.Sprint(talkPort)}
	awaitFaults(t, b.ns, args)
	other := testutil.NewNetNS(t, "other")
	testutil.Veth(t, b.ns, "eth1", other, "eth0")
	b.ns.SetSysctl("ipv4/conf/all/arp_ignore", "1")
	for _, tt := range []struct {
		name  string
		fault func()
		want  string
	}{
		{"no VIP", func() { b.ns.DelAddr("lo", "192.0.2.10/32") }, "vipAddress: 192.0.2.10"},
		{"no IPv6 VIP", func() { b.ns.DelAddr("lo", testutil.VIP6.String()+"/128") }, "vipAddress: 2001:db8:f::10"},
		{"the VIP is on the interface", func() {
			b.ns.DelAddr("lo", "192.0.2.10/32")
			b.ns.AddAddr("eth0", "192.0.2.10/24")
		}, "vipAddress: 192.0.2.10"},
		{"the VIP on lo is a network", func() {
			b.ns.DelAddr("lo", "192.0.2.10/32")
			b.ns.AddAddr("lo", "192.0.2.10/24")
		}, "vipAddress: 192.0.2.10"},
		{"ARP is answered", func() { b.ns.SetSysctl("ipv4/conf/all/arp_ignore", "0") }, "arpIgnore: eth0"},
		{"ARP names the VIP", func() { b.ns.SetSysctl("ipv4/conf/all/arp_announce", "0") }, "arpAnnounce: eth0"},
		{"a strict filter drops clients", func() {
			b.ns.SetSysctl("ipv4/conf/eth0/rp_filter", "1")
			b.ns.AddAddr("eth1", "198.51.100.2/24")
			b.ns.AddRoute("0.0.0.0/0", "198.51.100.1")
		}, "backendReversePath: eth0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault()
			mend(t, b.ns, awaitFaults(t, b.ns, args, tt.want))
			awaitFaults(t, b.ns, args)
		})
	}
	b.ns.SetSysctl("ipv6/conf/all/forwarding", "1")
	f := awaitFaults(t, b.ns, []string{"--backend", "--router"}, "forwarding: net.ipv4.ip_forward")
	mend(t, b.ns, f)
	awaitFaults(t, b.ns, []string{"--backend", "--router"})
	awaitFaults(t, b.ns, append(args, "--port", "81"), "listener: 192.0.2.10:81", "listener: [2001:db8:f::10]:81")
}
