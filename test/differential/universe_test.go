package differential

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/model"
)

// hashSeed chooses backends in all sequences.
const hashSeed = 0x6c346c62

// What sequences are made of. Pools are small, so that things meet again.
const (
	groupCount    = 8
	groupCapacity = 6
	// Groups from this one on have IPv6 addresses too. A service has groups
	// of one kind, or the family that serves a rule would change under it.
	dualStackFrom = 4
)

var (
	zoneNames = []string{"zone-a", "zone-b", "zone-c"}
	ports     = []uint16{53, 80, 443, 8080}

	// vips are the addresses that rules use; the last one is a /96 that holds
	// the one before.
	vips = []netip.Prefix{
		netip.MustParsePrefix("192.0.2.10/32"), netip.MustParsePrefix("192.0.2.11/32"), netip.MustParsePrefix("192.0.2.12/32"),
		netip.MustParsePrefix("2001:db8:f::10/128"), netip.MustParsePrefix("2001:db8:f:0:1::5/128"), netip.MustParsePrefix("2001:db8:f:0:1::/96"),
	}
	// targets are what packets are sent to.
	targets = []netip.Addr{
		netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("192.0.2.12"),
		netip.MustParseAddr("2001:db8:f::10"), netip.MustParseAddr("2001:db8:f:0:1::5"), netip.MustParseAddr("2001:db8:f:0:1::77"),
		netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:e::9"),
	}
	// destinations are what routes are for, and what is sent that way: some
	// of it into a subnet of the gateway, and to a group.
	destinations = []netip.Prefix{
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("203.0.113.8/29"), netip.MustParsePrefix("203.0.0.0/16"),
		netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2001:db8:e::/48"), netip.MustParsePrefix("::/0"),
	}
	subnets = []netip.Prefix{netip.MustParsePrefix("203.0.113.192/26"), netip.MustParsePrefix("2001:db8:e:ff::/64")}
	beyond  = []netip.Addr{
		netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("203.0.113.200"),
		netip.MustParseAddr("203.0.7.7"), netip.MustParseAddr("198.51.100.77"), netip.MustParseAddr("224.0.0.5"),
		netip.MustParseAddr("2001:db8:e::9"), netip.MustParseAddr("2001:db8:e:ff::9"), netip.MustParseAddr("2001:db8:d::9"),
		netip.MustParseAddr("ff02::5"),
	}
	// clientRanges are prefixes, nested ones among them, that a configuration
	// may put in a zone, make incompatible, or leave out.
	clientRanges = []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.1.128.0/17"), netip.MustParsePrefix("10.2.0.0/16"),
		netip.MustParsePrefix("10.3.0.0/16"), netip.MustParsePrefix("10.3.7.0/24"), netip.MustParsePrefix("10.3.7.9/32"),
		netip.MustParsePrefix("2001:db8:a::/48"), netip.MustParsePrefix("2001:db8:b::/48"), netip.MustParsePrefix("2001:db8:b:1::/64"),
	}
	clients = []netip.Addr{
		netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("10.1.0.8"), netip.MustParseAddr("10.1.130.7"),
		netip.MustParseAddr("10.2.0.7"), netip.MustParseAddr("10.2.0.8"), netip.MustParseAddr("10.3.0.7"),
		netip.MustParseAddr("10.3.7.8"), netip.MustParseAddr("10.3.7.9"), netip.MustParseAddr("198.51.100.7"),
		netip.MustParseAddr("2001:db8:a::7"), netip.MustParseAddr("2001:db8:a::8"), netip.MustParseAddr("2001:db8:b::7"),
		netip.MustParseAddr("2001:db8:b:1::7"), netip.MustParseAddr("2001:db8:c::7"),
	}
)

func instanceName(group, number int) string { return fmt.Sprintf("vm-%d-%d", group, number) }

// addresses are all that an instance can have.
func addresses(instance string) []netip.Addr {
	var group, number int
	if _, err := fmt.Sscanf(instance, "vm-%d-%d", &group, &number); err != nil {
		panic(err)
	}
	return endpointAddresses(group, number)
}

func endpointAddresses(group, number int) []netip.Addr {
	v4 := netip.AddrFrom4([4]byte{10, 240, byte(group), byte(number)})
	v6 := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0x02, 0x40, 13: byte(group), 15: byte(number)})
	if group >= dualStackFrom {
		return []netip.Addr{v4, v6}
	}
	return []netip.Addr{v4}
}

// random is a generator with the helpers that the test wants.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

// oneIn is true once in n times.
func (r random) oneIn(n int) bool { return r.IntN(n) == 0 }

func choose[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

// generate makes the sequence of a seed: a configuration, then packets, with
// events, reloads and jumps in time between them.
func generate(seed uint64, packets int) []step {
	r := newRandom(seed)
	g := &generator{random: r, config: newConfig(r), traffic: newTraffic(r)}
	g.eventEvery = choose(r, 60, 200, 600)
	steps := []step{{events: g.start()}}
	for packets > 0 {
		if r.oneIn(g.eventEvery) {
			steps = append(steps, g.change())
			continue
		}
		s := g.traffic.next(g.config)
		if r.oneIn(8) {
			s.wait = time.Duration(r.IntN(400)) * time.Millisecond
		}
		if r.oneIn(2 * g.eventEvery) {
			s.wait = g.jump()
		}
		steps = append(steps, s)
		packets--
	}
	return steps
}

// generator keeps what events need to know.
type generator struct {
	random
	config     *lb.Config
	traffic    *traffic
	eventEvery int
}

// start is the first configuration; most backends are healthy.
func (g *generator) start() []event {
	events := []event{{config: g.config}}
	for _, s := range g.config.Services {
		if s.HealthCheck != "" && !g.oneIn(6) {
			events = append(events, g.massFlip(&s, lb.Healthy, nil)...)
		}
	}
	return events
}

// traffic makes packets: most of them are of flows that were seen lately.
type traffic struct {
	random
	clients []netip.Addr
	recent  [40]model.Packet
	used    int
}

func newTraffic(r random) *traffic {
	t := &traffic{random: r}
	for range 4 + r.IntN(6) {
		t.clients = append(t.clients, choose(r, clients...))
	}
	return t
}

func (t *traffic) next(cfg *lb.Config) step {
	var p model.Packet
	if t.used > 0 && !t.oneIn(3) {
		p = t.recent[t.IntN(min(t.used, len(t.recent)))]
	} else {
		p = t.fresh(cfg)
		t.recent[t.used%len(t.recent)] = p
		t.used++
	}
	if p.Protocol == 6 {
		p.SYN, p.ACK = t.oneIn(3), t.oneIn(2)
	}
	if p.Fragment = model.Whole; t.oneIn(20) {
		p.Fragment = choose(t.random, model.FirstFragment, model.LaterFragment)
	}
	if t.oneIn(25) {
		p = t.aboutIt(p)
	}
	p.TTL, p.Sender, p.Interface = 61, netip.Addr{}, here
	if t.oneIn(16) {
		p.TTL = uint8(t.IntN(3))
	}
	if t.oneIn(16) {
		p.Sender = choose(t.random, addresses(instanceName(t.IntN(groupCount), t.IntN(groupCapacity)))...)
	}
	p.BadChecksum = t.oneIn(10)
	s := shape{payload: uint8(t.IntN(24)), quoteOptions: t.oneIn(4)}
	if t.oneIn(8) {
		s.tags = uint8(1 + t.IntN(2))
	}
	s.options = t.oneIn(10) && p.Protocol != 58
	return step{packet: &p, shape: s}
}

// aboutIt is an ICMP error that a router on the way back to the client, or the
// client, sends about an answer to the packet.
func (t *traffic) aboutIt(p model.Packet) model.Packet {
	e := model.Packet{Src: choose(t.random, p.Src, routerOf(p.Src)), Dst: p.Dst, Protocol: 1, ICMPType: choose[uint8](t.random, 3, 3, 11, 12, 4, 5)}
	if p.Dst.Is6() {
		e.Protocol, e.ICMPType = 58, choose[uint8](t.random, 1, 2, 2, 3, 4, 100)
	}
	switch t.IntN(12) {
	case 0:
		return e // cut short
	case 1:
		e.Dst = choose(t.random, targets...)
		for e.Dst.Is4() != p.Dst.Is4() {
			e.Dst = choose(t.random, targets...)
		}
	case 2:
		e.Fragment = choose(t.random, model.FirstFragment, model.LaterFragment)
	}
	e.Quoted = &model.Packet{
		Src: p.Dst, Dst: p.Src, Protocol: p.Protocol, SrcPort: p.DstPort, DstPort: p.SrcPort, Fragment: p.Fragment,
	}
	return e
}

// routerOf is a neighbour of the client.
func routerOf(client netip.Addr) netip.Addr { return client.Next() }

// fresh is a packet for a rule, or for anything.
func (t *traffic) fresh(cfg *lb.Config) model.Packet {
	p := model.Packet{Protocol: choose[uint8](t.random, 6, 6, 6, 17, 17, 1, 132, 50, 47), Dst: choose(t.random, targets...)}
	p.DstPort = choose(t.random, ports...)
	switch {
	case len(cfg.Routes) > 0 && t.oneIn(4):
		p.Dst = choose(t.random, beyond...)
	case len(cfg.Rules) > 0 && !t.oneIn(12):
		t.aim(&p, &cfg.Rules[t.IntN(len(cfg.Rules))])
	}
	p.Src = choose(t.random, t.clients...)
	for p.Src.Is4() != p.Dst.Is4() {
		p.Src = choose(t.random, clients...)
	}
	if t.oneIn(10) {
		p.Protocol = 1
	}
	switch p.Protocol {
	case 6, 17, 132:
		p.SrcPort = 40000 + uint16(t.IntN(3))
	case 1:
		p.ICMPType, p.DstPort = choose[uint8](t.random, 8, 8, 8, 0, 3, 13), 0
		if p.Dst.Is6() {
			p.Protocol, p.ICMPType = 58, choose[uint8](t.random, 128, 128, 128, 129, 1, 2)
		}
	default:
		p.DstPort = 0
	}
	return p
}

// aim sends the packet to a rule.
func (t *traffic) aim(p *model.Packet, r *lb.ForwardingRule) {
	p.Dst = r.Address.Addr()
	if !r.Address.IsSingleIP() {
		p.Dst = choose(t.random, targets[4], targets[5])
	}
	switch r.Protocol {
	case lb.RuleTCP:
		p.Protocol = 6
	case lb.RuleUDP:
		p.Protocol = 17
	}
	if len(r.Ports) > 0 {
		p.DstPort = choose(t.random, r.Ports...)
	}
}
