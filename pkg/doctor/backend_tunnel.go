package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/decap"
	"l4lb/pkg/lb"
)

// tunnelDevice is a device of the kernel that unwraps.
type tunnelDevice struct {
	attrs  *netlink.LinkAttrs
	remote netip.Addr // not valid: from anybody
	inner4 bool       // what it takes out: IPv4, IPv6
	inner6 bool
}

// checkTunnel looks for what unwraps the gateway's packets: l4lbd decap on an
// interface, or devices of the kernel.
func checkTunnel(_ context.Context, b *backend) ([]Finding, error) {
	if !b.tunnelled() {
		return []Finding{well("", "none was named: packets come by link address")}, nil
	}
	for _, l := range b.facing {
		s, err := decap.Inspect(l.Name)
		if errors.Is(err, decap.ErrNotAttached) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return append(unlessFound(b.decapFindings(&s), well(l.Name, "l4lbd decap unwraps there")), b.sizeNote()), nil
	}
	links, err := dump(b.nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	b.devices = tunnelDevices(links, b.Tunnel, b.outer6())
	found := b.deviceFindings()
	if b.Tunnel == lb.ForwardGUE && len(found) == 0 && !b.hasFou() {
		found = append(found, b.noFou())
	}
	return append(unlessFound(found, well(string(b.Tunnel), "devices of the kernel unwrap")), b.sizeNote()), nil
}

// outer6 reports whether tunnels come over IPv6; without a gateway they do not.
func (b *backend) outer6() bool { return b.Gateway.Is6() }

// decapFindings compares what decap accepts with what will come.
func (b *backend) decapFindings(s *decap.Status) []Finding {
	var out []Finding
	has := func(list []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if b.Gateway.IsValid() && !has(s.Gateways, b.Gateway) {
		out = append(out, Finding{
			Subject: s.Interface, Status: Problem, What: fmt.Sprintf("l4lbd decap accepts no tunnel from %s", b.Gateway),
			Why: "its packets go to the kernel, which does not unwrap them", Mend: b.decapMend(s.Interface),
		})
	}
	for _, vip := range b.VIPs {
		if len(s.VIPs) > 0 && !has(s.VIPs, vip) {
			out = append(out, Finding{
				Subject: vip.String(), Status: Problem, What: fmt.Sprintf("l4lbd decap on %s takes out no packet for the VIP", s.Interface),
				Why: "tunnels with such packets go to the kernel, which does not unwrap them", Mend: b.decapMend(s.Interface),
			})
		}
	}
	return out
}

// decapMend starts decap on an interface, or starts it anew with other options.
func (b *backend) decapMend(iface string) []string {
	gateway := "GATEWAY"
	if b.Gateway.IsValid() {
		gateway = b.Gateway.String()
	}
	options := []string{"--gateway " + gateway}
	for _, vip := range b.VIPs {
		options = append(options, "--vip "+vip.String())
	}
	return []string{
		fmt.Sprintf("echo 'OPTIONS=%s' > /etc/l4lb/decap-%s", strings.Join(options, " "), iface),
		"systemctl enable l4lbd-decap@" + iface, "systemctl restart l4lbd-decap@" + iface,
	}
}

// tunnelDevices are those that a kind of tunnel may be taken out by. GUE is handed
// to those of IPIP.
func tunnelDevices(links []netlink.Link, kind lb.Forwarding, outer6 bool) []tunnelDevice {
	var out []tunnelDevice
	add := func(l netlink.Link, remote net.IP, inner4, inner6 bool) {
		a, _ := netip.AddrFromSlice(remote)
		if a = a.Unmap(); a.IsValid() && a.IsUnspecified() {
			a = netip.Addr{}
		}
		out = append(out, tunnelDevice{l.Attrs(), a, inner4, inner6})
	}
	for _, l := range links {
		switch d := l.(type) {
		case *netlink.Iptun:
			if kind != lb.ForwardGENEVE && !outer6 {
				add(l, d.Remote, true, false)
			}
		case *netlink.Sittun:
			if kind != lb.ForwardGENEVE && !outer6 {
				add(l, d.Remote, false, true)
			}
		case *netlink.Ip6tnl:
			if kind != lb.ForwardGENEVE && outer6 {
				add(l, d.Remote, true, true)
			}
		case *netlink.Geneve:
			if kind == lb.ForwardGENEVE {
				add(l, d.Remote, true, true)
			}
		}
	}
	return out
}

// deviceFindings says for each VIP what keeps it from being unwrapped.
func (b *backend) deviceFindings() []Finding {
	var out []Finding
	for _, vip := range b.VIPs {
		if f := b.deviceFinding(vip); f.Status != OK && !slices.ContainsFunc(out, func(o Finding) bool { return o.What == f.What }) {
			out = append(out, f)
		}
	}
	return out
}

func (b *backend) deviceFinding(vip netip.Addr) Finding {
	f := Finding{
		Subject: vip.String(), Status: Problem, Why: "packets for the VIP arrive in their tunnel, and end there",
		What: fmt.Sprintf("nothing unwraps %s: neither l4lbd decap nor a device of the kernel", b.Tunnel),
	}
	if len(b.facing) > 0 {
		f.Mend = b.decapMend(b.facing[0].Name)
	}
	for _, d := range b.devices {
		if vip.Is4() && !d.inner4 || vip.Is6() && !d.inner6 {
			continue
		}
		if d.remote.IsValid() && b.Gateway.IsValid() && d.remote != b.Gateway {
			f.What = fmt.Sprintf("%s takes tunnels from %s, and not from the gateway %s", d.attrs.Name, d.remote, b.Gateway)
			f.Mend = []string{"ip -d link show dev " + d.attrs.Name}
			continue
		}
		if d.attrs.RawFlags&unix.IFF_UP == 0 {
			f.What, f.Mend = fmt.Sprintf("%s is down", d.attrs.Name), []string{fmt.Sprintf("ip link set dev %s up", d.attrs.Name)}
			continue
		}
		return well(vip.String(), "unwrapped by %s", d.attrs.Name)
	}
	return f
}

// hasFou reports whether the kernel receives GUE at its port.
func (b *backend) hasFou() bool {
	family := unix.AF_INET
	if b.outer6() {
		family = unix.AF_INET6
	}
	list, err := netlink.FouList(family)
	return err == nil && slices.ContainsFunc(list, func(f netlink.Fou) bool { return f.Port == decap.DefaultGUEPort })
}

func (b *backend) noFou() Finding {
	module, version := "fou", ""
	if b.outer6() {
		module, version = "fou6", "-6 "
	}
	return Finding{
		Subject: string(b.Tunnel), Status: Problem, What: fmt.Sprintf("no port receives GUE at %d", decap.DefaultGUEPort),
		Why:  "the devices of the kernel get nothing: GUE comes over UDP",
		Mend: []string{"modprobe " + module, fmt.Sprintf("ip %sfou add port %d gue", version, decap.DefaultGUEPort)},
	}
}

// sizeNote says how much less fits through the tunnel.
func (b *backend) sizeNote() Finding {
	overhead := overheadOf(b.Tunnel, b.outer6())
	const headers4, headers6, ethernet = 40, 60, 1500
	f := Finding{
		Subject: string(b.Tunnel), Status: Note,
		What: fmt.Sprintf("outer headers take %d bytes of each packet to this host", overhead),
		Why:  "where the network has no larger MTU for them, announce smaller segments on the routes to clients",
	}
	if b.has4() {
		f.Mend = append(f.Mend, fmt.Sprintf("ip route change %s advmss %d", b.defaultRoute(netlink.FAMILY_V4), ethernet-overhead-headers4))
	}
	if slices.ContainsFunc(b.VIPs, netip.Addr.Is6) {
		f.Mend = append(f.Mend, fmt.Sprintf("ip -6 route change %s advmss %d", b.defaultRoute(netlink.FAMILY_V6), ethernet-overhead-headers6))
	}
	return f
}

// defaultRoute is how ip(8) names the route to everybody.
func (b *backend) defaultRoute(family int) string {
	if b.nl == nil {
		return "default"
	}
	list, err := dump(func() ([]netlink.Route, error) { return b.nl.RouteList(nil, family) })
	if err != nil {
		return "default"
	}
	for i := range list {
		r := &list[i]
		if ones := 0; r.Dst != nil {
			if ones, _ = r.Dst.Mask.Size(); ones > 0 {
				continue
			}
		}
		l, err := b.nl.LinkByIndex(r.LinkIndex)
		if err != nil || r.Gw == nil {
			continue
		}
		return fmt.Sprintf("default via %s dev %s", r.Gw, l.Attrs().Name)
	}
	return "default"
}
