package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
)

// Verdicts of linux/pkt_cls.h.
const (
	tcShot     = 2
	tcRedirect = 7
)

const (
	tunnelIndex = 7
	tunnelPort  = 6080
	tunnelVNI   = 0x4c4c
)

// tunnelCase is a tunnel of one kind and mix of families.
type tunnelCase struct {
	kind           lb.Forwarding
	outer6, inner6 bool
}

func (c tunnelCase) String() string {
	version := map[bool]int{false: 4, true: 6}
	return fmt.Sprintf("%s, IPv%d in IPv%d", c.kind, version[c.inner6], version[c.outer6])
}

func tunnelCases() (list []tunnelCase) {
	for _, kind := range []lb.Forwarding{lb.ForwardIPIP, lb.ForwardGUE, lb.ForwardGENEVE} {
		for _, outer6 := range []bool{false, true} {
			for _, inner6 := range []bool{false, true} {
				list = append(list, tunnelCase{kind, outer6, inner6})
			}
		}
	}
	return list
}

// ends are the outer addresses.
func (c tunnelCase) ends() (src, dst netip.Addr) {
	if c.outer6 {
		return testutil.Gateway6, testutil.ZoneABackend6
	}
	return testutil.Gateway4, testutil.ZoneABackend4
}

func (c tunnelCase) way(index uint32) *way {
	src, dst := c.ends()
	spec := encap.Tunnel{Kind: c.kind, Source: netip.PrefixFrom(src, src.BitLen()), Dest: dst, LinkMTU: 1500}
	if c.kind != lb.ForwardIPIP {
		spec.Port = tunnelPort
	}
	if c.kind == lb.ForwardGENEVE {
		spec.VNI = tunnelVNI
	}
	header, err := spec.Header()
	if err != nil {
		panic(err)
	}
	return &way{index: index, path: Path{
		Way: lb.Way{Forwarding: c.kind, End: dst}, IfIndex: 1, Tunnel: header, Usable: true,
		DMAC: [6]byte(testutil.BackendAMAC), SMAC: [6]byte(testutil.GatewayMAC),
	}}
}

// deliver puts a frame through the program, as if its socket had the mark.
func deliver(t *testing.T, o *Output, index uint32, frame []byte) (verdict uint32, out []byte) {
	t.Helper()
	skb := make([]byte, 192) // struct __sk_buff
	const markOffset = 8
	binary.NativeEndian.PutUint32(skb[markOffset:], markBase|index)
	run := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: skb}
	verdict, err := o.objs.L4lbProbe.Run(run)
	if err != nil {
		t.Fatal(err)
	}
	return verdict, run.DataOut
}

// probeOf is a probe's frame, as the kernel sends it to the device.
func (c tunnelCase) probeOf(t *testing.T, payload int) []byte {
	src, dst := gateway4, vip4
	if c.inner6 {
		src, dst = gateway6, vip6
	}
	return testutil.TCP(t, netip.AddrPortFrom(src, 40000), netip.AddrPortFrom(dst, 80),
		testutil.Payload(make([]byte, payload)), func(p *testutil.Packet) {
			if p.IP4 != nil {
				p.IP4.TOS = 0xb9
			} else {
				p.IP6.TrafficClass = 0xb9
			}
		})
}

// loadProgram loads the program alone.
func loadProgram(t *testing.T) *Output {
	t.Helper()
	testutil.RequireRoot(t)
	o := &Output{}
	if err := loadProbeObjects(&o.objs, nil); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { o.objs.Close() })
	return o
}

// A probe gets the outer headers that a client's packet gets: those of the
// tunnel, with the probe's own length, DSCP, ECN and family.
func TestProbesGetTheOuterHeadersOfTheirTunnel(t *testing.T) {
	o := loadProgram(t)
	for _, c := range tunnelCases() {
		t.Run(c.String(), func(t *testing.T) {
			w := c.way(tunnelIndex)
			must(t, o.write(w))
			for _, payload := range []int{6, 40, 1000, w.mtu() - 60} {
				probe := c.probeOf(t, payload)
				verdict, out := deliver(t, o, tunnelIndex, probe)
				want := c.around(t, probe, out)
				if diff := testutil.Diff(want, out); verdict != tcRedirect || diff != "" {
					t.Errorf("%d bytes: verdict %d, frame (-want +got):\n%s", payload, verdict, diff)
				}
			}
		})
	}
}

// around is what is to leave for a probe. What tells flows apart is taken from the
// frame that left.
func (c tunnelCase) around(t *testing.T, probe, left []byte) []byte {
	t.Helper()
	src, dst := c.ends()
	out := testutil.Tunnel{Kind: string(c.kind), Src: src, Dst: dst, SrcMAC: testutil.GatewayMAC, DstMAC: testutil.BackendAMAC}
	if c.kind != lb.ForwardIPIP {
		out.DstPort = tunnelPort
		offset := 14 + 20
		if c.outer6 {
			offset = 14 + 40
		}
		if out.SrcPort = binary.BigEndian.Uint16(left[offset:]); out.SrcPort < 0xc000 {
			t.Errorf("source port %d", out.SrcPort)
		}
	}
	if c.kind == lb.ForwardGENEVE {
		out.VNI = tunnelVNI
	}
	if c.outer6 {
		out.FlowLabel = binary.BigEndian.Uint32(left[14:]) & 0xfffff
	}
	return out.Around(t, probe)
}

// Without a way no frame leaves, least of all one without its tunnel.
func TestProbesWithoutTheirTunnelDoNotLeave(t *testing.T) {
	o := loadProgram(t)
	c := tunnelCase{kind: lb.ForwardIPIP}
	for name, change := range map[string]func(*way){
		"not usable":           func(w *way) { w.path.Usable = false },
		"no headers":           func(w *way) { w.path.Tunnel = encap.Header{} },
		"headers of no tunnel": func(w *way) { w.path.Way.Forwarding = lb.ForwardL2 },
	} {
		t.Run(name, func(t *testing.T) {
			w := c.way(tunnelIndex)
			change(w)
			must(t, o.write(w))
			if verdict, _ := deliver(t, o, tunnelIndex, c.probeOf(t, 10)); verdict != tcShot {
				t.Errorf("verdict %d, want %d", verdict, tcShot)
			}
		})
	}
	if verdict, _ := deliver(t, o, tunnelIndex+1, c.probeOf(t, 10)); verdict != tcShot {
		t.Errorf("a backend that is gone: verdict %d, want %d", verdict, tcShot)
	}
}
