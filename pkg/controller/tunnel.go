package controller

import (
	"math"
	"net/netip"

	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// tunnel is what is put around the packets to a member.
type tunnel struct {
	spec   encap.Tunnel
	header encap.Header
	// err is why there is none although the way is known. The member then
	// cannot be reached.
	err error
}

// TunnelStatus is the tunnel to a member.
type TunnelStatus struct {
	Kind     lb.Forwarding
	Source   netip.Prefix // the gateway's side
	Overhead int          // bytes of headers
	MTU      int          // bytes of the longest packet that fits in
	Problem  string       // why there is none; "" where there is
}

// follow makes a member use the way to where its packets are sent.
func (e *Engine) follow(s *service, m *member) {
	p := e.path(m.backend.SentTo(s.cfg.Forwarding))
	if m.path == p {
		return
	}
	if m.path != nil {
		delete(m.path.members, m)
	}
	m.path = p
	p.members[m] = s
}

// usable reports whether packets can be sent to the member.
func (m *member) usable() bool {
	return m.path.link.Usable && (m.tunnel == nil || m.tunnel.err == nil)
}

// findTunnels makes the tunnels to a unit's members.
func (e *Engine) findTunnels(s *service) {
	for _, m := range s.members {
		m.tunnel = e.tunnelTo(s, m)
	}
}

// tunnelTo is the tunnel to a member by what is known of the way to it; nil where
// its service has none.
func (e *Engine) tunnelTo(s *service, m *member) *tunnel {
	if !s.cfg.Forwarding.Tunnelled() {
		return nil
	}
	t := &tunnel{}
	if m.path.link.IfIndex == 0 {
		return t
	}
	t.spec = encap.Tunnel{
		Kind: s.cfg.Forwarding, Source: encap.Source(e.cfg.Gateway.TunnelSources, s.cfg.Way(m.backend), m.path.link.Source), Dest: m.path.addr, LinkMTU: m.path.link.MTU,
		Port: s.cfg.Tunnel.Port, VNI: s.cfg.Tunnel.VNI, ClampMSS: s.cfg.Tunnel.ClampMSS,
	}
	t.header, t.err = t.spec.Header()
	return t
}

// linkMTU is what a member's link takes, 0 for whatever there is: in generic mode
// the kernel may have put several packets into one, which it takes apart again
// when that leaves.
func (e *Engine) linkMTU(m *member) uint16 {
	if e.cfg.Gateway.XDPMode == lb.XDPGeneric {
		return 0
	}
	return uint16(min(m.path.link.MTU, math.MaxUint16))
}

// withWay puts the way to a member into its record. What an earlier run knew
// holds until the way is found out, but no packet that belongs into a tunnel
// leaves without.
func (m *member) withWay(record loader.Member, mtu uint16) loader.Member {
	if link := &m.path.link; link.IfIndex != 0 {
		record.DMAC, record.SMAC, record.IfIndex = link.DMAC, link.SMAC, link.IfIndex
		record.Tunnel, record.MTU = encap.Header{}, mtu
		if m.tunnel != nil {
			record.Tunnel, record.MTU = m.tunnel.header, 0
		}
	}
	if (m.tunnel != nil) != (record.Tunnel != encap.Header{}) {
		record.IfIndex = 0
	}
	return record
}

func (e *Engine) tunnelStatus(s *service, m *member) TunnelStatus {
	out := TunnelStatus{Kind: lb.ForwardL2}
	if m.tunnel == nil {
		return out
	}
	out = TunnelStatus{
		Kind: s.cfg.Forwarding, Source: m.tunnel.spec.Source,
		Overhead: encap.Overhead(s.cfg.Forwarding, m.path.addr.Is6()), MTU: int(m.record.Tunnel.MTU),
	}
	if m.tunnel.err != nil {
		out.Problem = m.tunnel.err.Error()
	}
	return out
}
