package loader

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// echoPair is an echo request and the right answer to it, of 64 bytes TTL.
func echoPair(tb testing.TB, ipv6 bool, id, seq uint16, payload []byte, mutate ...testutil.Mutate) (request, reply []byte) {
	tb.Helper()
	src, dst := testutil.Client4, testutil.VIP4
	if ipv6 {
		src, dst = testutil.Client6, testutil.VIP6
	}
	build := func(src, dst netip.Addr, answer bool, ttl uint8) []byte {
		change := func(p *testutil.Packet) {
			if ipv6 {
				head := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, id), seq)
				p.Payload = append(head, payload...)
				if answer {
					p.ICMP6.TypeCode = layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoReply, 0)
				}
				return
			}
			p.ICMP4.Id, p.ICMP4.Seq, p.Payload = id, seq, payload
			if answer {
				p.ICMP4.TypeCode = layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoReply, 0)
			}
		}
		all := append([]testutil.Mutate{change, testutil.TTL(ttl)}, mutate...)
		if answer {
			all = append(all, testutil.MACs(testutil.GatewayMAC, testutil.ClientMAC))
		}
		return testutil.Echo(tb, src, dst, all...)
	}
	return build(src, dst, false, 7), build(dst, src, true, 64)
}

// Echo requests for a VIP are answered where no L3_DEFAULT rule takes them.
func TestEchoRequestsForAVIPAreAnswered(t *testing.T) {
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 20})
	text := []byte("an even number of bytes, to fill a frame")
	tests := []struct {
		name    string
		ipv6    bool
		payload []byte
		mutate  []testutil.Mutate
	}{
		{"even payload", false, text, nil},
		{"odd payload", false, text[1:], nil},
		{"empty payload", false, nil, nil},
		{"payload of a full frame", false, bytes.Repeat(text, 36), nil},
		{"behind two tags", false, text, []testutil.Mutate{testutil.VLAN(7, 8), serviceTag}},
		{"ipv4 options", false, text, []testutil.Mutate{ipOptions(options8)}},
		{"ipv6, even payload", true, text, nil},
		{"ipv6, odd payload", true, text[1:], nil},
		{"ipv6, empty payload", true, nil, nil},
		{"ipv6, payload of a full frame", true, bytes.Repeat(text, 36), nil},
		{"ipv6, behind a tag", true, text, []testutil.Mutate{testutil.VLAN(7)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request, reply := echoPair(t, tt.ipv6, 0x4c4c, 9, tt.payload, tt.mutate...)
			send(t, d, raw(request), answered(lbReasonREASON_ECHO_REPLY, reply))
		})
	}
}

// Over every word of payload the sum takes every value, those that complement to
// 0 and to 0xffff too, with nothing else in the message.
func TestEchoChecksumsAreRightForEverySum(t *testing.T) {
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 30})
	prepareManyRuns(t, d)
	for _, ipv6 := range []bool{false, true} {
		request, reply := echoPair(t, ipv6, 0, 0, []byte{0, 0})
		check, word := 14+20+2, 14+20+8
		if ipv6 {
			check, word = check+20, word+20
		}
		start := binary.BigEndian.Uint16(request[check:])
		end := binary.BigEndian.Uint16(reply[check:])
		for n := range 1 << 16 {
			binary.BigEndian.PutUint16(request[word:], uint16(n))
			binary.BigEndian.PutUint16(request[check:], subtract(start, uint16(n)))
			binary.BigEndian.PutUint16(reply[word:], uint16(n))
			binary.BigEndian.PutUint16(reply[check:], subtract(end, uint16(n)))
			if n%1000 == 0 || binary.BigEndian.Uint16(reply[check:])+1 <= 2 {
				w, r := echoPair(t, ipv6, 0, 0, []byte{byte(n >> 8), byte(n)})
				if !bytes.Equal(w, request) || !bytes.Equal(r, reply) {
					t.Fatalf("word %d: the test's own sums are wrong", n)
				}
			}
			if _, out, err := d.Run(request); err != nil || !bytes.Equal(out, reply) {
				t.Fatalf("word %d: %v (-want +got):\n%s", n, err, testutil.Diff(reply, out))
			}
		}
	}
}

// subtract is the checksum (RFC 1071) after a word that was 0 became n.
func subtract(check, n uint16) uint16 {
	sum := uint32(^check) + uint32(n)
	return ^uint16(sum + sum>>16)
}

// A message that is all zeros has the one checksum that is never 0.
func TestEchoReplyOfZerosHasAChecksumOfOnes(t *testing.T) {
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 20})
	for _, payload := range [][]byte{nil, make([]byte, 1), make([]byte, 40)} {
		request, reply := echoPair(t, false, 0, 0, payload)
		if payload == nil { // not padded either
			request, reply = request[:14+20+8], reply[:14+20+8]
		}
		if reply[36] != 0xff || reply[37] != 0xff {
			t.Fatalf("not the case this is about:\n%s", testutil.Dump(reply))
		}
		send(t, d, raw(request), answered(lbReasonREASON_ECHO_REPLY, reply))
	}
}

// A damaged request gets no answer, wherever the damage is; the frame's padding
// is no part of it.
func TestDamagedEchoRequestsAreNotAnswered(t *testing.T) {
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 20})
	prepareManyRuns(t, d)
	bad := dropped(lbReasonREASON_ECHO_BAD_CHECKSUM, 0, 0)
	for _, ipv6 := range []bool{false, true} {
		for _, payload := range [][]byte{nil, []byte("odd"), bytes.Repeat([]byte("l4lb"), 365)} {
			request, reply := echoPair(t, ipv6, 0x4c4c, 9, payload)
			from := 14 + 4 // tests of lengths have what is before
			if ipv6 {
				from = 14 + 7
			}
			whole := 14 + int(binary.BigEndian.Uint16(request[16:]))
			if ipv6 {
				whole = 14 + 40 + int(binary.BigEndian.Uint16(request[18:]))
			}
			for at := from; at < whole; at += 1 + at/64 {
				if !ipv6 && at >= 20 && at < 24 || isAddressOrType(at, ipv6) {
					continue // other packets than this one
				}
				if ipv6 && at == 21 {
					continue // the hop limit is not summed
				}
				damaged := bytes.Clone(request)
				damaged[at] ^= 0x10
				send(t, d, raw(damaged), bad)
			}
			for at := whole; at < len(request); at++ {
				request[at], reply[at] = 0x55, 0x55
			}
			send(t, d, raw(request), answered(lbReasonREASON_ECHO_REPLY, reply))
		}
	}
}

// isAddressOrType says whether a byte decides that the packet is an echo request
// for a VIP.
func isAddressOrType(at int, ipv6 bool) bool {
	if ipv6 {
		return at >= 38 && at < 54 || at == 54
	}
	return at >= 30 && at < 34 || at == 34
}

// Under an L3_DEFAULT rule the backend judges the checksum.
func TestDamagedEchoRequestsGoToABackendUnderL3Default(t *testing.T) {
	d := newFixture(t)
	damage := func(p *testutil.Packet) { p.KeepChecksums, p.ICMP4.Checksum, p.IP4.Checksum = true, 0xdead, 0xbeef }
	send(t, d, echo(t, testutil.ZoneAClient4, testutil.VIP4B, damage), started(memberA, ruleL3, zoneA, newOther))
}

// The same around the edges, in messages that are summed in more than one piece.
func TestEchoChecksumsOfLongMessagesAreRight(t *testing.T) {
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 30})
	prepareManyRuns(t, d)
	for _, ipv6 := range []bool{false, true} {
		base, _ := echoPair(t, ipv6, 0, 0, nil)
		at := 14 + 20 + 2
		if ipv6 {
			at += 20
		}
		// The words that bring the sum to an edge, and their neighbours.
		edge := binary.BigEndian.Uint16(base[at:])
		for _, word := range []uint16{0, 1, edge - 0x800, edge - 0x801, edge - 0x7ff, edge, edge - 1, edge + 1, edge + 0x100, edge - 0x100, 0xfffe, 0xffff} {
			for _, payload := range [][]byte{
				{byte(word >> 8), byte(word)},
				append(make([]byte, 600), byte(word>>8), byte(word)),
				append(make([]byte, 510), byte(word>>8), byte(word), 0),
			} {
				request, reply := echoPair(t, ipv6, 0, 0, payload)
				send(t, d, raw(request), answered(lbReasonREASON_ECHO_REPLY, reply))
			}
		}
	}
}

// Other kinds of ICMP for a VIP without an L3_DEFAULT rule have no rule.
func TestOtherICMPForAVIPHasNoRule(t *testing.T) {
	d := newFixture(t)
	_, reply := echoPair(t, false, 1, 1, nil)
	copy(reply[:12], append(append([]byte{}, testutil.GatewayMAC...), testutil.ClientMAC...))
	copy(reply[26:34], append(testutil.Client4.AsSlice(), testutil.VIP4.AsSlice()...))
	send(t, d, raw(reply), dropped(lbReasonREASON_NO_RULE, 0, 0))
	behind := echo(t, testutil.Client6, testutil.VIP6, testutil.DestOptions(0))
	send(t, d, behind, dropped(lbReasonREASON_NO_RULE, 0, 0))
}

// So many echo requests a second are answered by each CPU, and no more.
func TestEchoRequestsAboveTheRateAreDropped(t *testing.T) {
	onOneCPU(t)
	d := newFixtureWith(t, Options{EchoPerSecond: 3000}) // three a tick of the virtual clock
	limited := dropped(lbReasonREASON_ECHO_RATE_LIMITED, 0, 0)
	for tick := range 2 {
		must(t, d.SetClock(fixtureStart+time.Duration(tick)*time.Millisecond))
		request4, reply4 := echoPair(t, false, 1, 1, nil)
		request6, reply6 := echoPair(t, true, 1, 1, nil)
		send(t, d, raw(request4), answered(lbReasonREASON_ECHO_REPLY, reply4))
		send(t, d, raw(request6), answered(lbReasonREASON_ECHO_REPLY, reply6))
		send(t, d, raw(request4), answered(lbReasonREASON_ECHO_REPLY, reply4))
		sendAll(t, d, limited, raw(request4), raw(request6), raw(request4))
	}
	// Echo requests that an L3_DEFAULT rule takes are not counted as ours.
	must(t, d.SetFrontends([]Frontend{{Address: netip.PrefixFrom(testutil.VIP4, 32), L3: ruleL3}}))
	setFixturePick(t, d, 0, memberA)
	request, _ := echoPair(t, false, 1, 1, nil)
	forward, _ := echoPair(t, false, 1, 1, nil, testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC))
	want := started(memberA, ruleL3, 0, newOther)
	want.out = forward
	send(t, d, raw(request), want)
}

// onOneCPU keeps the test on one CPU: budgets are each CPU's.
func onOneCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &before))
	one.Set(firstCPU(before))
	must(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		must(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	})
}

func firstCPU(set unix.CPUSet) int {
	for cpu := range 8 * 128 {
		if set.IsSet(cpu) {
			return cpu
		}
	}
	return 0
}
