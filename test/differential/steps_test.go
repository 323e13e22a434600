package differential

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/model"
	"l4lb/pkg/selector"
)

// step is a packet, or else events that take effect together. wait is the time
// that passes before it.
type step struct {
	wait   time.Duration
	packet *model.Packet
	shape  shape
	events []event
}

// shape is what a frame has beyond what the model looks at.
type shape struct {
	tags    uint8 // VLAN tags, 0 to 2
	options bool  // IPv4 options, or an IPv6 extension header
	payload uint8
	// quoteOptions is options of the quoted packet.
	quoteOptions bool
}

// event is an input to engine and model; exactly one field is set.
type event struct {
	health *healthEvent
	link   *linkEvent
	drain  *drainEvent
	config *lb.Config
}

type healthEvent struct {
	service, instance string
	state             selector.Health
}

type linkEvent struct {
	instance string
	usable   bool
}

type drainEvent struct {
	instance, service string // service "" for all
	undo              bool
}

func describe(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%4d", i)
		if s.wait > 0 {
			fmt.Fprintf(&b, " after %v:", s.wait)
		}
		if s.packet != nil {
			fmt.Fprintf(&b, " %s\n", describePacket(s.packet))
		}
		for _, e := range s.events {
			fmt.Fprintf(&b, " %s\n", e)
		}
	}
	return b.String()
}

func describePacket(p *model.Packet) string {
	src, dst := p.Src.String(), p.Dst.String()
	name := fmt.Sprintf("protocol %d", p.Protocol)
	switch {
	case p.Protocol == 6 || p.Protocol == 17 || p.Protocol == 132:
		src = netip.AddrPortFrom(p.Src, p.SrcPort).String()
		dst = netip.AddrPortFrom(p.Dst, p.DstPort).String()
		name = map[uint8]string{6: "TCP", 17: "UDP", 132: "SCTP"}[p.Protocol]
	case p.Protocol == 1 || p.Protocol == 58:
		name = fmt.Sprintf("ICMP type %d", p.ICMPType)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{p.BadChecksum, "damaged"},
		{p.SYN, "SYN"},
		{p.ACK, "ACK"},
		{p.Fragment == model.FirstFragment, "first fragment"},
		{p.Fragment == model.LaterFragment, "later fragment"},
	} {
		if flag.set {
			name += " " + flag.name
		}
	}
	if p.Quoted != nil {
		name += " about " + describePacket(p.Quoted)
	}
	if p.Sender.IsValid() {
		name += " from " + p.Sender.String()
	}
	return fmt.Sprintf("%s > %s %s ttl %d", src, dst, name, p.TTL)
}

func (e event) String() string {
	switch {
	case e.health != nil:
		h := e.health
		weight := ""
		if h.state.Weight.Valid() {
			weight = fmt.Sprintf(" weight %d/%d", h.state.Weight.PPM, lb.WeightOne)
		}
		return fmt.Sprintf("%s in %s is %s%s", h.instance, h.service, h.state.State, weight)
	case e.link != nil:
		return fmt.Sprintf("%s reachable: %v", e.link.instance, e.link.usable)
	case e.drain != nil:
		return fmt.Sprintf("drain %s service %q undo %v", e.drain.instance, e.drain.service, e.drain.undo)
	}
	return describeConfig(e.config)
}

func describeConfig(c *lb.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "configuration:\n")
	for _, z := range c.Clients.Zones {
		fmt.Fprintf(&b, "       zone %s %v\n", z.Name, z.ClientRanges)
	}
	fmt.Fprintf(&b, "       incompatible %v, other region %v\n", c.Clients.Incompatible, c.Clients.OtherRegion)
	for _, g := range c.Groups {
		fmt.Fprintf(&b, "       group %s zone %s:", g.Name, g.Zone)
		for _, e := range g.Endpoints {
			fmt.Fprintf(&b, " %s", e.Addr)
		}
		b.WriteByte('\n')
	}
	for _, s := range c.Services {
		fmt.Fprintf(&b, "       service %s %s %s %s %s idle %v drain %v check %q zonal %+v failover %+v backends %v\n",
			s.Name, s.Affinity, s.Tracking.Mode, s.Tracking.Persistence, s.LocalityLbPolicy, s.Tracking.IdleTimeout,
			s.DrainTimeout, s.HealthCheck, s.Zonal, pointee(s.Failover), s.Backends)
	}
	for _, t := range c.Routes {
		fmt.Fprintf(&b, "       route %s %s priority %d from %v %v -> %s\n", t.Name, t.Dest, t.Priority, t.Sources, t.Interfaces, t.Rule)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "       rule %s %s %s ports %v all %v -> %s global %v admission %+v\n",
			r.Name, r.Address, r.Protocol, r.Ports, r.AllPorts, r.Service, r.AllowGlobalAccess, r.Admission)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func pointee[T any](p *T) any {
	if p == nil {
		return "none"
	}
	return *p
}
