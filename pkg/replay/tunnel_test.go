package replay

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	. "l4lb/internal/testutil"
	"l4lb/pkg/model"
)

// tunnelYAML has the backends of zonalYAML behind tunnels of a kind.
func tunnelYAML(kind string) string {
	yaml := strings.Replace(zonalYAML, "ipAddress: 10.2.0.11}", `ipAddress: 10.2.0.11, l4lb: {tunnelAddress: "2001:db8:9::b"}}`, 1)
	return strings.Replace(yaml, "  protocol: UNSPECIFIED\n", "  protocol: UNSPECIFIED\n  l4lb: {forwarding: "+kind+"}\n", 1)
}

// OUT has the frames in their tunnels, the link addresses those of where the
// tunnels end. What was captured short leaves as far as it goes.
func TestFramesLeaveInTheirTunnels(t *testing.T) {
	clientA, clientB := port(ZoneAClient4, 4000), port(ZoneBClient4, 4000)
	syn := SYN(t, clientA, vip80)
	synB := SYN(t, clientB, vip80, VLAN(7))
	long := TCP(t, clientA, vip80, Payload(make([]byte, 1000)))
	big := TCP(t, clientA, vip80, Payload(make([]byte, 1460)))
	packets := []taken{{data: syn}, {data: synB}, {data: long[:96], length: len(long)}, {data: big}}
	got := mustReplay(t, Options{Config: parseConfig(t, tunnelYAML("GUE")), Capture: ethernetCapture(t, packets)})
	expectFlows(t, got, "NEW web-a-1, NEW web-b-1, HIT web-a-1, HIT web-a-1")

	hash := func(client netip.AddrPort) uint64 {
		return model.FlowHash(&model.Packet{
			Src: client.Addr(), Dst: VIP4, Protocol: 6, SrcPort: client.Port(), DstPort: 80,
		}, 0)
	}
	a := Tunnel{
		Kind: "GUE", Src: netip.MustParseAddr("192.0.2.1"), Dst: ZoneABackend4, SrcMAC: GatewayMAC, DstMAC: BackendAMAC,
		SrcPort: 0xc000 | uint16(hash(clientA))&0x3fff, DstPort: 6080, KeepTags: true,
	}
	b := Tunnel{
		Kind: "GUE", Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8:9::b"),
		SrcMAC: GatewayMAC, DstMAC: MAC("02:4c:00:00:00:0b"), SrcPort: 0xc000 | uint16(hash(clientB))&0x3fff, DstPort: 6080,
		FlowLabel: uint32(hash(clientB)>>14) & 0xfffff, KeepTags: true,
	}
	whole := a.Around(t, long)
	for i, want := range [][]byte{a.Around(t, syn), b.Around(t, synB), whole[:96+28]} {
		if !bytes.Equal(got.sent[i].frame, want) {
			t.Errorf("packet %d (-want +got):\n%s", i, Diff(want, got.sent[i].frame))
		}
	}
	if n := got.sent[2].length; n != len(whole) {
		t.Errorf("the packet that was captured short leaves with %d bytes, want %d", n, len(whole))
	}
	if r := got.records[3]; r.Verdict != "TX" || r.Reason != "TOO_BIG" {
		t.Errorf("a packet that is too big: %+v", r)
	}
}

func TestTunnelKindsReplay(t *testing.T) {
	for kind, overhead := range map[string]int{"IPIP": 20, "GUE": 28, "GENEVE": 36} {
		in := SYN(t, port(ZoneAClient4, 4000), vip80, Payload(make([]byte, 100)))
		got := mustReplay(t, Options{Config: parseConfig(t, tunnelYAML(kind)), Capture: ethernetCapture(t, []taken{{data: in}})})
		if n := len(got.sent[0].frame); n != len(in)+overhead {
			t.Errorf("%s: %d bytes leave, want %d", kind, n, len(in)+overhead)
		}
	}
}
