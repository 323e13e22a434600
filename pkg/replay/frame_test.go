package replay

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	. "l4lb/internal/testutil"
)

// A capture with a snap length replays as the packets were, as far as it goes.
func TestPacketsThatWereCapturedShort(t *testing.T) {
	syn := SYN(t, port(ZoneAClient4, 1), vip80, Payload(make([]byte, 1000)))
	syn6 := SYN(t, port(ZoneAClient6, 1), port(VIP6, 80), Payload(make([]byte, 1000)), VLAN(7))
	packets := []taken{
		{data: syn[:96], length: len(syn)},
		{data: syn6[:96], length: len(syn6)},
		{data: syn[:40], length: len(syn)}, // into the TCP header
		{data: Echo(t, ZoneAClient4, VIP4)[:50], length: 74},
		{data: Echo(t, ZoneAClient6, VIP6)[:70], length: 94},
	}
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	expectFlows(t, got, "NEW web-a-1, NEW web-a-1, NONE, NONE, NONE")
	if r := got.records[2]; r.Reason != "MALFORMED" || r.ClientZone != "zone-a" {
		t.Errorf("cut in the header: %+v", r)
	}
	for i, whole := range [][]byte{syn, syn6} {
		if s := got.sent[i]; !bytes.Equal(s.frame[12:], whole[12:96]) || s.length != len(whole) {
			t.Errorf("packet %d leaves with %d of %d bytes:\n%s", i, len(s.frame), s.length, Dump(s.frame))
		}
	}
	for i, whole := range [][]byte{Echo(t, VIP4, ZoneAClient4), Echo(t, VIP6, ZoneAClient6)} {
		at, kind := 34, byte(echoAnswer4)
		if i > 0 {
			at, kind = 54, echoAnswer6
		}
		replaceWord(whole[at+2:], uint16(whole[at])<<8, uint16(kind)<<8)
		s := got.sent[2+i].frame
		if want := whole[at+1:]; s[at] != kind || !bytes.Equal(s[at+1:], want[:len(s)-at-1]) {
			t.Errorf("answer %d to a cut request:\n%s", i, Dump(s))
		}
	}
	if w := strings.Join(got.summary.Warnings(), "\n"); got.summary.Cut != 5 || !strings.Contains(w, "5 packets were captured short") {
		t.Errorf("%+v, warnings %s", got.summary, w)
	}
}

// What a host captures before its card cut it into segments is longer than any
// frame that a gateway is given.
func TestPacketsLongerThanAnyFrame(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 3800)
	clientA := port(ZoneAClient4, 1)
	long := [][]byte{
		SYN(t, clientA, vip80, Payload(payload)),
		TCP(t, clientA, vip80, Payload(payload), VLAN(7)),
		SYN(t, port(ZoneAClient6, 1), port(VIP6, 80), Payload(payload)),
		TCP(t, clientA, vip80, Payload(payload[:maxFrame])),
		Echo(t, ZoneAClient4, VIP4, Payload(payload)),
	}
	var packets []taken
	for _, f := range long {
		packets = append(packets, taken{data: f})
	}
	packets = append(packets, taken{data: long[0][:96], length: len(long[0])})
	noIP := append(slices.Concat(GatewayMAC, ClientMAC, []byte{0x88, 0xb5}), payload...)
	packets = append(packets, taken{data: noIP})
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	expectFlows(t, got, "NEW web-a-1, HIT web-a-1, NEW web-a-1, HIT web-a-1, NONE, NEW web-a-1, NONE")
	for i, f := range long[:4] {
		if !bytes.Equal(got.sent[i].frame[12:], f[12:]) {
			t.Errorf("packet %d is not what came, but for its link addresses: %d bytes, want %d", i, len(got.sent[i].frame), len(f))
		}
	}
	reply := got.sent[4].frame
	if p := Decode(reply); len(reply) != len(long[4]) || p.ErrorLayer() != nil {
		t.Fatalf("echo reply of %d bytes, want %d: %v", len(reply), len(long[4]), p.ErrorLayer())
	}
	if err, bad := Decode(reply).VerifyChecksums(); err != nil || len(bad) > 0 {
		t.Errorf("echo reply's checksums: %v %v", err, bad)
	}
	if s := got.sent[5]; len(s.frame) != 96 || s.length != len(long[0]) || binary.BigEndian.Uint16(s.frame[16:]) != uint16(len(long[0])-14) {
		t.Errorf("cut packet leaves with %d of %d bytes:\n%s", len(s.frame), s.length, Dump(s.frame))
	}
}
