package lab

import (
	_ "embed"
	"fmt"
	"net/netip"
	"slices"

	"l4lb/pkg/config"
	"l4lb/pkg/lb"
)

// configText is the configuration that the lab's gateway runs with.
//
//go:embed lab.yaml
var configText []byte

// The service and the ports of its rules that lab.yaml has.
const (
	serviceName = "web"
	httpPort    = 80
	echoPort    = 7
)

// Namespaces are named with this prefix, so that a run finds what an earlier
// one left behind.
const namespacePrefix = "l4lb-lab-"

const (
	routerName  = "router"
	gatewayName = "gateway"
)

// plan is the lab as data: what is built, and who is where.
type plan struct {
	cfg      *lb.Config
	segments []segment
	hosts    []host // gateway, backends and clients, in this order
	vips     []netip.Addr
}

// segment is one broadcast domain: a bridge in the router's namespace.
type segment struct {
	name   string         // of the bridge
	router []netip.Prefix // the router's addresses on it
}

// role says what a host does.
type role int

const (
	roleGateway role = iota
	roleBackend
	roleClient
)

// host is one machine: a namespace with an interface in each of its segments.
type host struct {
	name  string
	role  role
	zone  string // "" for none
	group string // of clients: what they have in common
	nics  []nic
}

// nic is eth0, eth1 and so on, in order.
type nic struct {
	segment string
	addrs   []netip.Prefix
}

// addr is the first address of a family.
func (h *host) addr(ipv6 bool) netip.Addr {
	for _, n := range h.nics {
		for _, p := range n.addrs {
			if p.Addr().Is6() == ipv6 {
				return p.Addr()
			}
		}
	}
	return netip.Addr{}
}

// The client groups. Clients of a group have the same place in the world.
const (
	groupA   = "zone-a"
	groupB   = "zone-b"
	groupOut = "no zone"
	groupVPN = "VPN"
)

func clientGroups() []string { return []string{groupA, groupB, groupOut, groupVPN} }

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// segments of the lab. Backends and the gateway are in the first two.
func labSegments() []segment {
	return []segment{
		{"servers-a", prefixes("10.1.0.1/24", "2001:db8:a::1/64")},
		{"servers-b", prefixes("10.2.0.1/24", "2001:db8:b::1/64")},
		{"clients-a", prefixes("10.1.128.1/24", "2001:db8:a:1::1/64")},
		{"clients-b", prefixes("10.2.128.1/24", "2001:db8:b:1::1/64")},
		{"outside", prefixes("198.51.100.1/24", "2001:db8:c::1/64")},
		{"vpn", prefixes("10.200.0.1/24", "2001:db8:200::1/64")},
	}
}

func labClients() []host {
	client := func(name, group, segment, ipv4, ipv6 string) host {
		return host{name: name, role: roleClient, group: group, nics: []nic{{segment, prefixes(ipv4, ipv6)}}}
	}
	return []host{
		client("client-a-1", groupA, "clients-a", "10.1.128.11/24", "2001:db8:a:1::11/64"),
		client("client-a-2", groupA, "clients-a", "10.1.128.12/24", "2001:db8:a:1::12/64"),
		client("client-b-1", groupB, "clients-b", "10.2.128.11/24", "2001:db8:b:1::11/64"),
		client("client-b-2", groupB, "clients-b", "10.2.128.12/24", "2001:db8:b:1::12/64"),
		client("client-out", groupOut, "outside", "198.51.100.11/24", "2001:db8:c::11/64"),
		client("client-vpn", groupVPN, "vpn", "10.200.0.11/24", "2001:db8:200::11/64"),
	}
}

// newPlan builds the lab's plan from the text of its configuration.
func newPlan(text []byte) (*plan, error) {
	doc, err := config.Parse("lab.yaml", text)
	if err != nil {
		return nil, fmt.Errorf("read the lab's configuration: %w", err)
	}
	p := &plan{cfg: doc.Config, segments: labSegments()}
	p.hosts = append(p.hosts, host{name: gatewayName, role: roleGateway, nics: []nic{
		{"servers-a", prefixes("10.1.0.2/24", "2001:db8:a::2/64")},
		{"servers-b", prefixes("10.2.0.2/24", "2001:db8:b::2/64")},
	}})
	if err := p.addBackends(); err != nil {
		return nil, err
	}
	for _, c := range labClients() {
		c.zone = p.cfg.Clients.Classify(c.addr(false)).Zone
		p.hosts = append(p.hosts, c)
	}
	for _, r := range p.cfg.Rules {
		if addr := r.Address.Addr(); !slices.Contains(p.vips, addr) {
			p.vips = append(p.vips, addr)
		}
	}
	return p, nil
}

// addBackends adds a host for every instance of the service.
func (p *plan) addBackends() error {
	for _, b := range p.cfg.Backends(p.cfg.Service(serviceName)) {
		seg, bits := p.segmentOf(b.Addr)
		if seg == "" {
			return fmt.Errorf("backend %s: %s is in no segment of the lab", b.Instance, b.Addr)
		}
		addr := netip.PrefixFrom(b.Addr, bits)
		if h := p.host(b.Instance); h != nil {
			h.nics[0].addrs = append(h.nics[0].addrs, addr)
			continue
		}
		p.hosts = append(p.hosts, host{
			name: b.Instance, role: roleBackend, zone: b.Zone, group: b.Group,
			nics: []nic{{seg, []netip.Prefix{addr}}},
		})
	}
	return nil
}

func (p *plan) segmentOf(addr netip.Addr) (name string, bits int) {
	for _, s := range p.segments {
		for _, r := range s.router {
			if r.Contains(addr) {
				return s.name, r.Bits()
			}
		}
	}
	return "", 0
}

func (p *plan) segment(name string) *segment {
	for i := range p.segments {
		if p.segments[i].name == name {
			return &p.segments[i]
		}
	}
	return nil
}

func (p *plan) host(name string) *host {
	for i := range p.hosts {
		if p.hosts[i].name == name {
			return &p.hosts[i]
		}
	}
	return nil
}

func (p *plan) withRole(r role) []*host {
	var out []*host
	for i := range p.hosts {
		if p.hosts[i].role == r {
			out = append(out, &p.hosts[i])
		}
	}
	return out
}

// members are the names of a group's instances, in the order of the file.
func (p *plan) members(group string) []string {
	var out []string
	for _, h := range p.withRole(roleBackend) {
		if h.group == group {
			out = append(out, h.name)
		}
	}
	return out
}
