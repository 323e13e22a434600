package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/probe"
)

// What the way of probes uses, as docs/setup/health-checks.md lists it.
const (
	probeRulePriority = 900
	probeMark         = 0x4c000000
	probeMarkMask     = 0xfff00000
)

// checkProbePath looks at what the way of probes depends on.
func checkProbePath(_ context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	ipv6 := slices.ContainsFunc(g.vips(), func(a netip.Addr) bool { return a.Is6() })
	if value, err := sysctl("ipv6/conf/all/disable_ipv6"); ipv6 && err == nil && value != "0" {
		out = append(out, Finding{
			Subject: "net.ipv6.conf.all.disable_ipv6", Status: Problem, What: "IPv6 is switched off, and there are IPv6 VIPs",
			Why:  "a probe of an IPv6 VIP is a packet of this host: none can be sent, so IPv6 backends are never healthy",
			Mend: []string{"sysctl -w net.ipv6.conf.all.disable_ipv6=0"},
		})
	}
	families := []int{netlink.FAMILY_V4}
	if ipv6 {
		families = append(families, netlink.FAMILY_V6)
	}
	for _, family := range families {
		rules, err := dump(func() ([]netlink.Rule, error) { return g.nl.RuleList(family) })
		if err != nil {
			return out, fmt.Errorf("list rules: %w", err)
		}
		for i := range rules {
			if f, bad := ruleFinding(&rules[i], family); bad {
				out = append(out, f)
			}
		}
	}
	return unlessFound(out, well("", "nothing is in the way; no sysctl of the host needs to be changed for it")), nil
}

// ruleFinding judges a routing rule that comes before that of the probes.
func ruleFinding(r *netlink.Rule, family int) (Finding, bool) {
	narrow := r.Src != nil || r.Dst != nil || r.IifName != "" || r.OifName != "" || r.UIDRange != nil || r.Dport != nil || r.Sport != nil
	if r.Priority >= probeRulePriority || narrow || r.Table == unix.RT_TABLE_LOCAL || r.Table == 0 {
		return Finding{}, false
	}
	if r.Mark != 0 || r.Mask != nil {
		mask := uint32(0xffffffff)
		if r.Mask != nil {
			mask = *r.Mask
		}
		// The mark of a probe is the base and a number: a rule that asks for
		// a bit that no probe has does not match.
		catches := (probeMark^r.Mark)&mask&probeMarkMask == 0
		if catches == r.Invert {
			return Finding{}, false
		}
	}
	version := ""
	if family == netlink.FAMILY_V6 {
		version = " -6"
	}
	return Finding{
		Subject: fmt.Sprintf("rule %d", r.Priority), Status: Warning,
		What: fmt.Sprintf("a routing rule with priority %d looks table %d up before probes are recognised", r.Priority, r.Table),
		Why:  fmt.Sprintf("a route to a VIP there takes the probes elsewhere; those of l4lbd have priority %d", probeRulePriority),
		Mend: []string{
			fmt.Sprintf("ip%s route show table %d", version, r.Table),
			fmt.Sprintf("ip%s rule show priority %d", version, r.Priority),
		},
	}, true
}

// checkReversePath tells of strict filters. The daemon has an answer to them.
func checkReversePath(_ context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	strict := map[string][]string{}
	for _, iface := range g.towardsBackends() {
		for _, vip := range g.vips() {
			if !vip.Is4() || g.onHost[vip] {
				continue
			}
			drops, err := probe.StrictReversePath(iface, vip)
			if err != nil {
				return out, err
			}
			if drops {
				strict[iface] = append(strict[iface], vip.String())
			}
		}
	}
	for _, iface := range g.towardsBackends() {
		if len(strict[iface]) == 0 {
			continue
		}
		out = append(out, Finding{
			Subject: iface, Status: Note, What: fmt.Sprintf("rp_filter is strict, and the route to %s leaves by another interface", strings.Join(strict[iface], ", ")),
			Why:  "the kernel would drop the answers to probes; the daemon shows the filter a route for them alone, so nothing needs to be changed",
			Mend: []string{fmt.Sprintf("sysctl -w net.ipv4.conf.%s.rp_filter=2", sysctlName(iface))},
		})
	}
	return unlessFound(out, well("", "no answer is dropped")), nil
}

// towardsBackends are the interfaces by which backends are reached, sorted.
func (g *gateway) towardsBackends() []string {
	var out []string
	for _, p := range g.peers() {
		r, err := routeTo(g.nl, p.addr)
		if err != nil || r.Type == unix.RTN_LOCAL {
			continue
		}
		if l, err := g.nl.LinkByIndex(r.LinkIndex); err == nil {
			out = append(out, l.Attrs().Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sysctl reads a network sysctl of the calling thread's namespace.
func sysctl(key string) (string, error) {
	text, err := os.ReadFile("/proc/sys/net/" + key)
	return strings.TrimSpace(string(text)), err
}

// sysctlName is an interface's name in the key of sysctl(8), where a dot
// separates.
func sysctlName(iface string) string { return strings.ReplaceAll(iface, ".", "/") }
