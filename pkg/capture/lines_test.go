package capture

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

func TestLinesAreForPeople(t *testing.T) {
	var out bytes.Buffer
	l := &Lines{W: &out}
	must(t, l.Start(nil))
	frame := func(data []byte) Frame {
		return Frame{Interface: "eth0", Time: time.Date(2001, 2, 3, 4, 5, 6, 789000, time.Local), Data: data, Length: len(data)}
	}
	tcp := testutil.SYN(t, clientA4, web4)
	for _, p := range []Packet{
		{
			Verdict: loader.VerdictRedirect, Rule: "web-tcp", Service: "web", Backend: "a1", Flow: loader.TraceNew, Zone: "zone-a",
			In: frame(tcp), Out: Frame{Interface: "eth1", Data: tcp, Length: len(tcp)},
		},
		{Verdict: loader.VerdictDrop, Reason: loader.Reason(reasons()["NO_RULE"]), In: frame(testutil.UDP(t, clientA6, web6))},
		{Verdict: loader.VerdictPass, In: frame(testutil.IP(t, clientA4.Addr(), web4.Addr(), layers.IPProtocolESP, []byte("secret")))},
		{Verdict: loader.VerdictPass, In: frame(testutil.Echo(t, clientA4.Addr(), web4.Addr()))},
		{Verdict: loader.VerdictPass, In: frame(testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4))},
		{Verdict: loader.VerdictPass, In: frame([]byte("no frame"))},
		{Verdict: loader.VerdictPass, In: frame(tcp[:40])},
	} {
		must(t, l.Packet(&p))
	}
	must(t, l.Finish(nil))
	const want = `04:05:06.000789 eth0 → eth1  10.1.2.3:40000 > 192.0.2.10:80 TCP SYN, 60 bytes  REDIRECT rule=web-tcp service=web backend=a1 flow=NEW zone=zone-a
04:05:06.000789 eth0  [2001:db8:a::7]:40000 > [2001:db8:f::10]:80 UDP, 71 bytes  DROP reason=NO_RULE
04:05:06.000789 eth0  10.1.2.3 > 192.0.2.10 IPSecESP, 60 bytes  PASS
04:05:06.000789 eth0  10.1.2.3 > 192.0.2.10 ICMP EchoRequest, 74 bytes  PASS
04:05:06.000789 eth0  ARP request, 60 bytes  PASS
04:05:06.000789 eth0  8 bytes  PASS
04:05:06.000789 eth0  10.1.2.3 > 192.0.2.10 TCP, 40 bytes  PASS
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
