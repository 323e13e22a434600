package probe

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// triple is a probe's answer: it comes from a VIP, to an address of the
// gateway, by an interface.
type triple struct {
	vip, source netip.Addr
	ifindex     int
}

// reverse keeps a strict reverse path filter (rp_filter=1) from dropping
// answers. The filter wants the route to the VIP to leave by the interface that
// the answer came by; where the host routes the VIP elsewhere, a rule shows it
// such a route for packets from that address of the gateway to that VIP alone.
// Nothing is done where the filter is off or loose, or agrees.
type reverse struct {
	slot   int
	seen   map[triple]bool // true: has a rule
	strict map[int]bool    // whether an interface's filter is
	links  map[int]bool    // interfaces that the table leads to
	// inside runs a function in the network namespace.
	inside func(func() error) error
}

func newReverse(slot int, inside func(func() error) error) reverse {
	return reverse{slot: slot, seen: map[triple]bool{}, strict: map[int]bool{}, links: map[int]bool{}, inside: inside}
}

// recheck looks at every triple again when it is next used.
func (v *reverse) recheck() {
	clear(v.seen)
	clear(v.strict)
}

// allow makes sure that answers of the triple are accepted.
func (v *reverse) allow(nl *netlink.Handle, t triple) error {
	if _, known := v.seen[t]; known || !t.vip.Is4() {
		return nil
	}
	blocked, err := v.blocked(nl, t)
	if err == nil && blocked {
		err = v.add(nl, t)
	}
	if err != nil {
		return fmt.Errorf("reverse path from %s: %w", t.vip, err)
	}
	v.seen[t] = blocked
	return nil
}

func (v *reverse) blocked(nl *netlink.Handle, t triple) (bool, error) {
	strict, err := v.isStrict(nl, t.ifindex)
	if err != nil || !strict {
		return false, err
	}
	return leavesElsewhere(nl, t.vip, t.ifindex)
}

// isStrict reads an interface's filter once for all VIPs: entering the namespace
// takes a thread, and a thousand VIPs are looked at again every few seconds while
// their probes wait.
func (v *reverse) isStrict(nl *netlink.Handle, ifindex int) (strict bool, err error) {
	if strict, known := v.strict[ifindex]; known {
		return strict, nil
	}
	link, err := nl.LinkByIndex(ifindex)
	if err != nil {
		return false, err
	}
	err = v.inside(func() (err error) {
		strict, err = strictFilter(link.Attrs().Name)
		return err
	})
	if err == nil {
		v.strict[ifindex] = strict
	}
	return strict, err
}

// strictFilter reads what holds for an interface of the calling thread's
// namespace: the larger of its own value and that of all.
func strictFilter(iface string) (bool, error) {
	value := 0
	for _, name := range []string{"all", iface} {
		text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + name + "/rp_filter")
		if err != nil {
			return false, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return false, fmt.Errorf("read rp_filter of %s: %w", name, err)
		}
		value = max(value, n)
	}
	return value == 1, nil
}

// StrictReversePath reports whether the reverse path filter of an interface of
// the calling thread's namespace would drop a probe's answer from vip, were it
// not for the rule that an Output adds. It is for diagnosis: nothing needs to be
// changed.
func StrictReversePath(iface string, vip netip.Addr) (bool, error) {
	link, err := netlink.LinkByName(iface)
	if err != nil {
		return false, fmt.Errorf("reverse path of %s: %w", iface, err)
	}
	strict, err := strictFilter(iface)
	if err != nil || !strict || !vip.Is4() {
		return false, err
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return false, fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	return leavesElsewhere(nl, vip, link.Attrs().Index)
}

// leavesElsewhere reports whether the route to a VIP leaves by another
// interface, or there is none.
func leavesElsewhere(nl *netlink.Handle, vip netip.Addr, ifindex int) (bool, error) {
	routes, err := nl.RouteGet(vip.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.LinkIndex == ifindex }), nil
}

// add shows the filter a route. One table serves all triples: a route with
// several next hops agrees with each of their interfaces.
func (v *reverse) add(nl *netlink.Handle, t triple) error {
	v.links[t.ifindex] = true
	d := device{slot: v.slot}
	route := &netlink.Route{Family: netlink.FAMILY_V4, Table: d.reverseTable(), Dst: everything(netlink.FAMILY_V4), Scope: netlink.SCOPE_LINK}
	if len(v.links) == 1 {
		route.LinkIndex = t.ifindex
	} else {
		for _, index := range slices.Sorted(maps.Keys(v.links)) {
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: index})
		}
	}
	if err := nl.RouteReplace(route); err != nil {
		return fmt.Errorf("add route: %w", err)
	}
	rule := netlink.NewRule()
	rule.Family, rule.Table, rule.Priority = netlink.FAMILY_V4, d.reverseTable(), reversePriorityBase+v.slot
	rule.Src, rule.Dst = host(t.source), host(t.vip)
	if err := nl.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add rule: %w", err)
	}
	return nil
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
