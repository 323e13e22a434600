package loader

import (
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// allow lets in clients of some networks only.
func allow(tb testing.TB, d *Datapath, rule uint32, ranges ...string) {
	tb.Helper()
	list := make([]netip.Prefix, len(ranges))
	for i := range ranges {
		list[i] = netip.MustParsePrefix(ranges[i])
	}
	id, err := d.NewRanges(list)
	must(tb, err)
	must(tb, d.SetAdmission(rule, Admission{Ranges: id}))
	changeRule(tb, d, rule, func(r *Rule) { r.SourceFilter = true })
}

// limit sets the limits of a rule.
func limit(tb testing.TB, d *Datapath, rule uint32, a Admission) {
	tb.Helper()
	must(tb, d.SetAdmission(rule, a))
	changeRule(tb, d, rule, func(r *Rule) { r.RateLimited = true })
}

func TestOnlyAllowedSourcesBeginFlows(t *testing.T) {
	d := newFixture(t)
	newFlowsGoTo(t, d, memberA)
	allow(t, d, ruleTCP80, "198.51.100.64/26", "198.51.100.7/32", "10.1.0.0/16", "2001:db8:c::/64", "2001:db8:a:8000::/49")
	allow(t, d, ruleL3, "198.51.100.0/25", "2001:db8:c::8/125")
	vip4, vip6, esp := testutil.VIP4, testutil.VIP6, layers.IPProtocolESP
	tests := []struct {
		name, src string
		build     func(src netip.Addr) frame
		rule      uint32
		ok        bool
		zone      uint8
	}{
		{"inside", "198.51.100.65", nil, ruleTCP80, true, 0},
		{"the first of a range", "198.51.100.64", nil, ruleTCP80, true, 0},
		{"the last of a range", "198.51.100.127", nil, ruleTCP80, true, 0},
		{"before a range", "198.51.100.63", nil, ruleTCP80, false, 0},
		{"behind a range", "198.51.100.128", nil, ruleTCP80, false, 0},
		{"a single address", "198.51.100.7", nil, ruleTCP80, true, 0},
		{"beside a single address", "198.51.100.6", nil, ruleTCP80, false, 0},
		{"with a zone", "10.1.2.3", nil, ruleTCP80, true, zoneA},
		{"ipv6, inside", "2001:db8:c::ffff", nil, ruleTCP80, true, 0},
		{"ipv6, outside", "2001:db8:c:1::1", nil, ruleTCP80, false, 0},
		{"ipv6, a range that ends within a byte", "2001:db8:a:8000::1", nil, ruleTCP80, true, zoneA},
		{"ipv6, before it", "2001:db8:a:7fff::1", nil, ruleTCP80, false, zoneA},
		{"the ranges of another rule", "198.51.100.1", nil, ruleTCP80, false, 0},
		{"another protocol", "198.51.100.1", func(src netip.Addr) frame { return otherIP(t, src, testutil.VIP4B, esp, make([]byte, 20)) }, ruleL3, true, 0},
		{"another protocol, outside", "198.51.100.200", func(src netip.Addr) frame { return otherIP(t, src, testutil.VIP4B, esp, make([]byte, 20)) }, ruleL3, false, 0},
		{"ipv6, another protocol", "2001:db8:c::f", func(src netip.Addr) frame { return otherIP(t, src, testutil.VIP6B, esp, make([]byte, 20)) }, ruleL3, true, 0},
		{"a rule without ranges", "203.0.113.9", func(src netip.Addr) frame { return udp(t, ap(src, 4000), ap(vip4, 53)) }, ruleUDPAll, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := netip.MustParseAddr(tt.src)
			event := newOther
			if tt.build == nil {
				event = newSYN
				tt.build = func(src netip.Addr) frame {
					if src.Is6() {
						return syn(t, ap(src, 4000), ap(vip6, 80))
					}
					return syn(t, ap(src, 4000), ap(vip4, 80))
				}
			}
			if tt.ok {
				send(t, d, tt.build(src), started(memberA, tt.rule, tt.zone, event))
				return
			}
			// Nothing is begun that a second packet could follow.
			sendAll(t, d, dropped(lbReasonREASON_SOURCE_NOT_ALLOWED, tt.rule, 0), tt.build(src), tt.build(src))
		})
	}
}

// What follows an entry is not looked at; what must end is taken out of the table.
func TestAFilterIsForNewFlows(t *testing.T) {
	d := newFixture(t)
	newFlowsGoTo(t, d, memberA)
	f := tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80))
	send(t, d, f, started(memberA, ruleTCP80, 0, newOther))
	allow(t, d, ruleTCP80, "10.0.0.0/8")
	limit(t, d, ruleTCP80, Admission{Flows: FlowRate{PerSecond: 1, Burst: 1}})
	send(t, d, f, followed(memberA, ruleTCP80, 0, confirmed))
	send(t, d, f, followed(memberA, ruleTCP80, 0))
}

// Removing a set and putting another in its place.
func TestRangesAreReplacedAtOnce(t *testing.T) {
	d := newFixtureWith(t, Options{Ranges: 4})
	newFlowsGoTo(t, d, memberA)
	one, other := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f := syn(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80))
	changeRule(t, d, ruleTCP80, func(r *Rule) { r.SourceFilter = true })
	send(t, d, f, started(memberA, ruleTCP80, 0, newSYN)) // no set is named yet
	first, err := d.NewRanges(one)
	must(t, err)
	second, err := d.NewRanges(other)
	must(t, err)
	if _, err := d.NewRanges(append(one, append(other, one...)...)); err == nil {
		t.Error("more ranges than there is room for")
	}
	for range 3 {
		must(t, d.SetAdmission(ruleTCP80, Admission{Ranges: second}))
		send(t, d, f, dropped(lbReasonREASON_SOURCE_NOT_ALLOWED, ruleTCP80, 0))
		must(t, d.DeleteRanges(first))
		first, err = d.NewRanges(one)
		must(t, err)
		must(t, d.SetAdmission(ruleTCP80, Admission{Ranges: first}))
		forgetFlows(d)
		send(t, d, f, started(memberA, ruleTCP80, 0, newSYN))
	}
}

// A rate is a bucket: a burst at once, then one flow each time that a flow takes.
func TestNewFlowsOfARuleAreLimited(t *testing.T) {
	for name, vip := range map[string]netip.AddrPort{"ipv4": ap(testutil.VIP4, 80), "ipv6": ap(testutil.VIP6, 80)} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			newFlowsGoTo(t, d, memberA)
			limit(t, d, ruleTCP80, Admission{Flows: FlowRate{PerSecond: 10, Burst: 3}})
			client, now, port := testutil.Client4, fixtureStart, uint16(4000)
			if vip.Addr().Is6() {
				client = testutil.Client6
			}
			next := func() frame { port++; return syn(t, ap(client, port), vip) }
			take := func(n int) {
				t.Helper()
				for range n {
					send(t, d, next(), started(memberA, ruleTCP80, 0, newSYN))
				}
				send(t, d, next(), dropped(lbReasonREASON_RATE_LIMITED, ruleTCP80, 0))
			}
			wait := func(ms time.Duration) { now += ms * time.Millisecond; must(t, d.SetClock(now)) }
			take(3)
			wait(99)
			take(0)
			wait(1)
			take(1)
			wait(250)
			take(2)
			wait(50) // with the rest of the wait before
			take(1)
			wait(10_000)
			take(3)

			// Packets of flows that are there are not counted, a SYN of one is:
			// it begins a connection (semantics.md 1.2).
			follower := func(flags string) frame { return tcp(t, ap(client, 4001), vip, testutil.Flags(flags)) }
			send(t, d, follower("A"), followed(memberA, ruleTCP80, 0, confirmed))
			send(t, d, follower("A"), followed(memberA, ruleTCP80, 0))
			send(t, d, follower("S"), dropped(lbReasonREASON_RATE_LIMITED, ruleTCP80, 0))
			send(t, d, follower("A"), followed(memberA, ruleTCP80, 0))
			// Another rule has nothing to do with it.
			send(t, d, udp(t, ap(client, 4000), ap(vip.Addr(), 53)), started(memberA, ruleUDPAll, 0, newOther))
			// A limit that stays goes on, one that changes begins with a full bucket.
			must(t, d.SetAdmission(ruleTCP80, Admission{Flows: FlowRate{PerSecond: 10, Burst: 3}}))
			take(0)
			must(t, d.SetAdmission(ruleTCP80, Admission{Flows: FlowRate{PerSecond: 10, Burst: 4}}))
			take(4)
		})
	}
}

// One source's flood is its own: the others are served.
func TestNewFlowsOfASourceAreLimited(t *testing.T) {
	tests := []struct {
		name                   string
		bits                   uint8
		source, neighbour, far string // neighbour is the same source
	}{
		{"each ipv4 address", 128, "198.51.100.7", "198.51.100.7", "198.51.100.6"},
		{"each ipv4 /24", 96 + 24, "198.51.100.7", "198.51.100.200", "198.51.101.7"},
		{"each ipv4 /31", 96 + 31, "198.51.100.6", "198.51.100.7", "198.51.100.8"},
		{"each ipv6 /64", 64, "2001:db8:c::7", "2001:db8:c::ffff:1", "2001:db8:c:1::7"},
		{"each ipv6 address", 128, "2001:db8:c::7", "2001:db8:c::7", "2001:db8:c::6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t)
			newFlowsGoTo(t, d, memberA)
			limit(t, d, ruleTCP80, Admission{SourceFlows: FlowRate{PerSecond: 2, Burst: 2}, SourceBits: tt.bits})
			port := uint16(4000)
			from := func(src string) frame {
				port++
				a := netip.MustParseAddr(src)
				vip := testutil.VIP4
				if a.Is6() {
					vip = testutil.VIP6
				}
				return syn(t, ap(a, port), ap(vip, 80))
			}
			ok, refused := started(memberA, ruleTCP80, 0, newSYN), dropped(lbReasonREASON_SOURCE_RATE_LIMITED, ruleTCP80, 0)
			sendAll(t, d, ok, from(tt.source), from(tt.neighbour))
			sendAll(t, d, refused, from(tt.source), from(tt.neighbour), from(tt.source))
			sendAll(t, d, ok, from(tt.far), from(tt.far))
			sendAll(t, d, refused, from(tt.far), from(tt.neighbour))
			must(t, d.SetClock(fixtureStart+500*time.Millisecond))
			sendAll(t, d, ok, from(tt.neighbour), from(tt.far))
			sendAll(t, d, refused, from(tt.source), from(tt.far))
			// Other limits have other buckets.
			must(t, d.SetAdmission(ruleTCP80, Admission{SourceFlows: FlowRate{PerSecond: 2, Burst: 1}, SourceBits: tt.bits}))
			sendAll(t, d, ok, from(tt.source))
			sendAll(t, d, refused, from(tt.source))
		})
	}
}

// Sources do not pay for flows that the rule's own limit refuses, and a source
// that is over its limit does not use up the rule's.
func TestBothLimitsTogether(t *testing.T) {
	d := newFixture(t)
	newFlowsGoTo(t, d, memberA)
	limit(t, d, ruleTCP80, Admission{
		Flows: FlowRate{PerSecond: 4, Burst: 4}, SourceFlows: FlowRate{PerSecond: 1, Burst: 2}, SourceBits: 128,
	})
	port := uint16(4000)
	from := func(last byte) frame {
		port++
		return syn(t, ap(netip.AddrFrom4([4]byte{198, 51, 100, last}), port), ap(testutil.VIP4, 80))
	}
	ok := started(memberA, ruleTCP80, 0, newSYN)
	rule, source := dropped(lbReasonREASON_RATE_LIMITED, ruleTCP80, 0), dropped(lbReasonREASON_SOURCE_RATE_LIMITED, ruleTCP80, 0)
	sendAll(t, d, ok, from(1), from(1))
	sendAll(t, d, source, from(1), from(1), from(1))
	sendAll(t, d, ok, from(2), from(3))
	sendAll(t, d, rule, from(4), from(4), from(4), from(2))
	must(t, d.SetClock(fixtureStart+500*time.Millisecond)) // two more of the rule
	sendAll(t, d, ok, from(4), from(4))
	sendAll(t, d, rule, from(2))
}

// All CPUs together begin as many flows as are allowed, and no more.
func TestLimitsAreExactOverCPUs(t *testing.T) {
	const burst, workers, packets = 500, 4, 300
	for name, a := range map[string]Admission{
		"of a rule":   {Flows: FlowRate{PerSecond: burst, Burst: burst}},
		"of a source": {SourceFlows: FlowRate{PerSecond: burst, Burst: burst}, SourceBits: 96},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			prepareManyRuns(t, d)
			limit(t, d, ruleTCP80, a)
			var begun atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				crowd := newCrowd(t, syn(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 80)))
				wg.Go(func() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					for n := range packets {
						if verdict, _ := run(t, d, crowd.flow(uint32(w*packets+n))); verdict == VerdictTX {
							begun.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if begun.Load() != burst {
				t.Errorf("%d flows were begun, want %d of %d", begun.Load(), burst, workers*packets)
			}
			refused, err := d.Refused(ruleTCP80)
			must(t, err)
			if got := refused.Limited + refused.SourceLimited; got != workers*packets-burst {
				t.Errorf("%d refused", got)
			}
			must(t, d.ClearRefused(ruleTCP80))
			if refused, err = d.Refused(ruleTCP80); err != nil || refused != (Refused{}) {
				t.Errorf("%+v, %v after clearing", refused, err)
			}
		})
	}
}

// More sources than are remembered: the oldest are forgotten, nobody is locked out.
func TestManySourcesCostBoundedMemory(t *testing.T) {
	d := newFixtureWith(t, Options{Sources: 1024})
	prepareManyRuns(t, d)
	limit(t, d, ruleTCP80, Admission{SourceFlows: FlowRate{PerSecond: 1, Burst: 1}, SourceBits: 128})
	crowd := newCrowd(t, syn(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 80)))
	for n := range uint32(5000) {
		if verdict, _ := run(t, d, crowd.flow(n<<12)); verdict != VerdictTX {
			t.Fatalf("source %d: %s", n, verdict)
		}
	}
	if verdict, _ := run(t, d, crowd.flow(4999<<12)); verdict != VerdictDrop {
		t.Errorf("the newest source again: %s", verdict)
	}
}

// The extremes of what a configuration can say.
func TestRatesOfEverySize(t *testing.T) {
	for _, r := range []FlowRate{{1, 1}, {1, MaxFlowRate}, {MaxFlowRate, MaxFlowRate / 100}, {MaxFlowRate, MaxFlowRate}, {3, 7}} {
		cost, burst := r.words()
		if perSecond := 16e9 / float64(cost); perSecond < float64(r.PerSecond) || perSecond > 1.0001*float64(r.PerSecond) {
			t.Errorf("%+v: %f flows a second", r, perSecond)
		}
		if burst/cost != uint64(r.Burst) {
			t.Errorf("%+v: a burst of %d", r, burst/cost)
		}
	}
}
