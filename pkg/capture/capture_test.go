package capture

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

var (
	clientA4 = netip.MustParseAddrPort("10.1.2.3:40000")
	clientA6 = netip.MustParseAddrPort("[2001:db8:a::7]:40000")
	other4   = netip.MustParseAddrPort("198.51.100.9:40001")
	web4     = netip.AddrPortFrom(testutil.VIP4, 80)
	web6     = netip.AddrPortFrom(testutil.VIP6, 80)
)

// Each packet comes with what the program decided about it, whichever way it went
// through the program, and with its frame before and after.
func TestEachPacketComesWithItsFate(t *testing.T) {
	g := newGateway(t)
	forwarded := func(mac []byte) testutil.Mutate { return testutil.MACs(testutil.GatewayMAC, mac) }
	closed := netip.AddrPortFrom(testutil.VIP4, 81)
	tests := []struct {
		name string
		in   []byte
		fate string
		out  []byte
	}{
		{
			"a new flow", testutil.SYN(t, clientA4, web4),
			"TX rule=web-tcp service=web backend=a1 flow=NEW zone=zone-a",
			testutil.SYN(t, clientA4, web4, forwarded(testutil.BackendAMAC)),
		},
		{
			"a flow's second packet", testutil.TCP(t, clientA4, web4),
			"TX rule=web-tcp service=web backend=a1 flow=HIT zone=zone-a",
			testutil.TCP(t, clientA4, web4, forwarded(testutil.BackendAMAC)),
		},
		{
			"its third", testutil.TCP(t, clientA4, web4),
			"TX rule=web-tcp service=web backend=a1 flow=HIT zone=zone-a",
			testutil.TCP(t, clientA4, web4, forwarded(testutil.BackendAMAC)),
		},
		{
			"a new flow over IPv6", testutil.UDP(t, clientA6, web6),
			"TX rule=web-udp service=web backend=a1 flow=NEW zone=zone-a",
			testutil.UDP(t, clientA6, web6, forwarded(testutil.BackendAMAC)),
		},
		{
			"its second packet", testutil.UDP(t, clientA6, web6),
			"TX rule=web-udp service=web backend=a1 flow=HIT zone=zone-a",
			testutil.UDP(t, clientA6, web6, forwarded(testutil.BackendAMAC)),
		},
		{
			"a client of no zone", testutil.SYN(t, other4, web4),
			"TX rule=web-tcp service=web backend=b1 flow=NEW",
			testutil.SYN(t, other4, web4, forwarded(testutil.BackendBMAC)),
		},
		{"a port that no rule has", testutil.SYN(t, clientA4, closed), "DROP reason=NO_RULE", nil},
		{"an address that is not ours", testutil.SYN(t, clientA4, netip.MustParseAddrPort("192.0.2.99:80")), "PASS", nil},
		{
			"a question for the VIP's owner", testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4),
			"TX reason=ARP_REPLY", testutil.ARPReply(t, testutil.GatewayMAC, testutil.VIP4, testutil.ClientMAC, testutil.Client4),
		},
	}
	r := g.capture(Options{}, func() {
		for _, tt := range tests {
			g.send(tt.in)
		}
	})
	if len(r.packets) != len(tests) {
		t.Fatalf("%d packets captured, want %d", len(r.packets), len(tests))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &r.packets[i]
			if p.String() != tt.fate {
				t.Errorf("fate %q, want %q", p, tt.fate)
			}
			if diff := testutil.Diff(tt.in, p.In.Data); diff != "" {
				t.Errorf("as it arrived (-want +got):\n%s", diff)
			}
			if diff := testutil.Diff(tt.out, p.Out.Data); diff != "" {
				t.Errorf("as it left (-want +got):\n%s", diff)
			}
			if p.In.Interface != ifaceDev || p.Sent() && p.Out.Interface != ifaceDev {
				t.Errorf("from %q to %q, want %q", p.In.Interface, p.Out.Interface, ifaceDev)
			}
			if p.ID != uint64(i+1) || p.In.Length != len(tt.in) || p.Out.Length != len(tt.out) {
				t.Errorf("packet %d of %d and %d bytes, want %d of %d and %d",
					p.ID, p.In.Length, p.Out.Length, i+1, len(tt.in), len(tt.out))
			}
			if p.Sent() && p.Out.Time.Before(p.In.Time) {
				t.Errorf("it left at %v and arrived at %v", p.Out.Time, p.In.Time)
			}
		})
	}
	want := fmt.Sprintf("[{%s %d %[2]d 0 0}]", ifaceDev, len(tests))
	if got := fmt.Sprint(r.summary.Interfaces); got != want {
		t.Errorf("summary %s, want %s", got, want)
	}
}

// A packet that leaves by another interface is shown there.
func TestRedirectedPacketLeavesByItsBackendsInterface(t *testing.T) {
	g := newGateway(t)
	m := g.Member(memberA)
	m.IfIndex = 1 << 20 // which no host has
	must(t, g.SetMember(memberA, m))
	frame := testutil.SYN(t, clientA4, web4)
	r := g.capture(Options{}, func() { g.send(frame) })
	want := testutil.SYN(t, clientA4, web4, testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC))
	p := &r.packets[0]
	if diff := testutil.Diff(want, p.Out.Data); diff != "" {
		t.Errorf("as it left (-want +got):\n%s", diff)
	}
	if p.Verdict != loader.VerdictRedirect || p.In.Interface != ifaceDev || p.Out.Interface != "if1048576" {
		t.Errorf("%s from %s to %s", p, p.In.Interface, p.Out.Interface)
	}
}

// The program is attached where the data plane's is, so it must be of its kind: one
// that takes frames of several buffers if that does, for instance.
func TestCaptureIsTheDataPlanesKindOfProgram(t *testing.T) {
	ours, err := loadTracer()
	must(t, err)
	theirs, err := ebpf.LoadCollectionSpec("../loader/lb_bpfel.o")
	must(t, err)
	kind := func(p *ebpf.ProgramSpec) string {
		return fmt.Sprintf("%v %v %v %#x", p.SectionName, p.Type, p.AttachType, p.Flags)
	}
	if got, want := kind(ours.Programs[tracerProgL4lbCapture]), kind(theirs.Programs["l4lb_ingress"]); got != want {
		t.Errorf("the capture's program is %s, the data plane's %s", got, want)
	}
}
