package replay

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "l4lb/internal/testutil"
)

var (
	otherRegion4 = netip.MustParseAddr("10.99.0.1")
	vpnClient4   = netip.MustParseAddr("10.1.77.1") // in zone a's range, over VPN
)

// Every kind of verdict, in one capture. The index is filled in.
func TestVerdicts(t *testing.T) {
	clientA, clientB6 := port(ZoneAClient4, 4000), port(ZoneBClient6, 4000)
	notIPv4 := SYN(t, clientA, vip80)
	notIPv4[14] = 0x55
	web := func(verdict, rule, backend, flow, zone string) Record {
		return Record{Verdict: verdict, Service: "web", ForwardingRule: rule, Backend: backend, Flow: flow, ClientZone: zone}
	}
	plain := func(verdict, reason, zone string) Record {
		return Record{Verdict: verdict, Reason: reason, Flow: "NONE", ClientZone: zone}
	}
	because := func(r Record, reason, service string) Record {
		r.Reason, r.Service = reason, service
		return r
	}
	tests := []struct {
		name  string
		frame []byte
		want  Record
	}{
		{"first packet of a connection", SYN(t, clientA, vip80), web("TX", "web-tcp", "web-a-1", "NEW", "zone-a")},
		{"second packet", TCP(t, clientA, vip80), web("TX", "web-tcp", "web-a-1", "HIT", "zone-a")},
		{"frame for another host", TCP(t, clientA, vip80, MACs(ClientMAC, RouterMAC)), web("TX", "web-tcp", "web-a-1", "HIT", "zone-a")},
		{"ipv6", SYN(t, clientB6, port(VIP6, 80)), web("TX", "web-tcp6", "web-b-1", "NEW", "zone-b")},
		{"udp", UDP(t, port(ZoneBClient4, 53), port(VIP4, 53)), web("TX", "web-udp", "web-b-1", "NEW", "zone-b")},
		{"two tags", TCP(t, clientA, vip80, VLAN(7, 8)), web("TX", "web-tcp", "web-a-1", "HIT", "zone-a")},
		{"no rule for the port", SYN(t, clientA, port(VIP4, 81)), plain("DROP", "NO_RULE", "zone-a")},
		{"client of another region", SYN(t, port(otherRegion4, 1), vip80), because(web("DROP", "web-tcp", "", "NONE", ""), "OTHER_REGION", "web")},
		{"service without backends", SYN(t, clientA, port(VIP4B, 80)), because(web("DROP", "void-tcp", "", "NONE", "zone-a"), "NO_BACKEND", "void")},
		{"not for a vip", SYN(t, clientA, port(Outside4, 80)), plain("PASS", "", "zone-a")},
		{"client over vpn, not for a vip", SYN(t, port(vpnClient4, 1), port(Outside4, 80)), plain("PASS", "", "zone-a")},
		{"first fragment", UDP(t, clientA, port(VIP4, 53), Fragment(0, true)), web("TX", "web-udp", "web-a-1", "NEW", "zone-a")},
		{"later fragment", UDP(t, clientA, port(VIP4, 53), Fragment(9, true)), web("TX", "web-udp", "web-a-1", "HIT", "zone-a")},
		{"later fragment without a rule", TCP(t, clientA, vip80, Fragment(9, true)), plain("DROP", "FRAGMENT", "zone-a")},
		{"icmp error about an answer", ICMPError(t, ZoneAClient4, VIP4, 3, 4, [4]byte{}, TCP(t, vip80, clientA)), web("TX", "web-tcp", "web-a-1", "HIT", "zone-a")},
		{"icmp error about something else", ICMPError(t, ZoneAClient4, VIP4, 3, 4, [4]byte{}, TCP(t, clientA, vip80)), plain("PASS", "ICMP_ERROR", "zone-a")},
		{"echo", Echo(t, ZoneAClient4, VIP4), plain("TX", "ECHO_REPLY", "zone-a")},
		{"arp request", ARPRequest(t, ClientMAC, ZoneAClient4, VIP4), plain("TX", "ARP_REPLY", "")},
		{"solicitation", NeighborSolicitation(t, ClientMAC, ZoneAClient6, VIP6), plain("TX", "ND_REPLY", "zone-a")},
		{"frame for a group", UDP(t, clientA, port(VIP4, 53), MACs(ClientMAC, MAC("01:00:5e:00:00:05"))), plain("PASS", "", "zone-a")},
		{"ip version 5", notIPv4, plain("PASS", "MALFORMED", "")},
		{"header cut off", SYN(t, clientA, vip80)[:20], plain("PASS", "MALFORMED", "")},
		{"shorter than ethernet", make([]byte, 10), plain("PASS", "", "")},
		{"nothing at all", nil, plain("PASS", "", "")},
	}
	var packets []taken
	var want []Record
	for i, tt := range tests {
		packets = append(packets, taken{data: tt.frame})
		tt.want.Index = i
		want = append(want, tt.want)
	}
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	for i := range got.records {
		if diff := cmp.Diff(want[i], got.records[i]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tests[i].name, diff)
		}
	}
	if len(got.records) != len(want) || got.summary.Packets != len(want) || got.summary.Forwarded != len(got.sent) {
		t.Errorf("%d records, %d sent, %+v; want %d records", len(got.records), len(got.sent), got.summary, len(want))
	}
}

func TestFramesLeaveWithTheLinkAddressesOfTheContract(t *testing.T) {
	packets := seconds(
		0, SYN(t, port(ZoneAClient4, 1), vip80, Payload([]byte("four"))),
		1, SYN(t, port(ZoneBClient6, 1), port(VIP6, 80), Payload([]byte("six")), VLAN(7)),
		2, SYN(t, port(ZoneAClient4, 1), port(Outside4, 80)),
		3, ARPRequest(t, ClientMAC, ZoneAClient4, VIP4),
	)
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	want := [][]byte{
		SYN(t, port(ZoneAClient4, 1), vip80, Payload([]byte("four")), MACs(GatewayMAC, MAC("02:4c:0a:01:00:0b"))),
		SYN(t, port(ZoneBClient6, 1), port(VIP6, 80), Payload([]byte("six")), VLAN(7), MACs(GatewayMAC, MAC("02:4c:00:00:00:11"))),
		ARPReply(t, GatewayMAC, VIP4, ClientMAC, ZoneAClient4),
	}
	if len(got.sent) != len(want) {
		t.Fatalf("%d packets left, want %d", len(got.sent), len(want))
	}
	for i, at := range []int{0, 1, 3} {
		if !bytes.Equal(got.sent[i].frame, want[i]) {
			t.Errorf("packet %d (-want +got):\n%s", at, Diff(want[i], got.sent[i].frame))
		}
		if wantTime := begin.Add(packets[at].at); !got.sent[i].time.Equal(wantTime) {
			t.Errorf("packet %d leaves at %s, want %s", at, got.sent[i].time, wantTime)
		}
	}
}
