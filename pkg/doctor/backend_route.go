package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
)

// strangers are what the route to clients is told by: no host has these
// documentation addresses.
var (
	stranger4 = netip.MustParseAddr("203.0.113.1")
	stranger6 = netip.MustParseAddr("2001:db8:ffff::1")
)

// checkBackendReversePath asks whether what comes by the interface that faces
// the gateway passes a strict filter: the answers to clients would have to leave
// by it too. Where a tunnel ends, none do.
func checkBackendReversePath(_ context.Context, b *backend) ([]Finding, error) {
	if !b.has4() {
		return []Finding{well("", "there is no IPv4 VIP")}, nil
	}
	var out []Finding
	for _, l := range b.facing {
		value, err := effective(l.Name, "rp_filter")
		if err != nil {
			return out, err
		}
		if value != 1 {
			continue
		}
		var elsewhere []string
		for _, from := range []struct {
			who  string
			addr netip.Addr
		}{{"the gateway", b.Gateway}, {"clients", stranger4}} {
			if !from.addr.Is4() {
				continue
			}
			r, err := routeTo(b.nl, from.addr)
			if err != nil && !errors.Is(err, errNoRoute) {
				return out, err
			}
			// With a second interface that is not named, packets may come by
			// that one.
			if (err != nil || r.LinkIndex != l.Index) && (b.Gateway.IsValid() || len(b.facing) == 1) {
				elsewhere = append(elsewhere, from.who)
			}
		}
		if len(elsewhere) == 0 {
			continue
		}
		out = append(out, reversePathFinding(l.Name, strings.Join(elsewhere, " and ")))
	}
	for _, d := range b.devices {
		value, err := effective(d.attrs.Name, "rp_filter")
		if err != nil {
			return out, err
		}
		if value == 1 {
			f := reversePathFinding(d.attrs.Name, "clients")
			f.Why = "what comes out of the tunnel is dropped without a trace: no answer leaves by it"
			out = append(out, f)
		}
	}
	return unlessFound(out, well("", "no packet is dropped")), nil
}

func reversePathFinding(iface, who string) Finding {
	return Finding{
		Subject: iface, Status: Problem, What: fmt.Sprintf("rp_filter is strict, and the route to %s leaves by another interface", who),
		Why:  "packets that come by this one are dropped without a trace (nstat -az TcpExtIPReversePathFilter)",
		Mend: []string{fmt.Sprintf("sysctl -w net.ipv4.conf.%s.rp_filter=2", sysctlName(iface))},
	}
}

// checkAnswerRoute asks for the route of an answer, with the VIP as source.
func checkAnswerRoute(_ context.Context, b *backend) ([]Finding, error) {
	var out []Finding
	for _, vip := range b.VIPs {
		if b.missing[vip] {
			continue
		}
		to := stranger4
		if vip.Is6() {
			to = stranger6
		}
		_, err := b.nl.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: vip.AsSlice()})
		if err == nil {
			continue
		}
		version := ""
		if vip.Is6() {
			version = "-6 "
		}
		out = append(out, Finding{
			Subject: vip.String(), Status: Warning, What: fmt.Sprintf("no route leads from the VIP to strangers: %v", err),
			Why:  "answers go to clients directly, and never by the gateway: only clients that a route is known to are answered",
			Mend: []string{fmt.Sprintf("ip %sroute show default", version), fmt.Sprintf("ip %sroute get %s from %s", version, to, vip)},
		})
	}
	return unlessFound(out, well("", "answers find their way")), nil
}
