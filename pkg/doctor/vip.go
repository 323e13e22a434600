package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// checkVIPOnHost looks for VIPs that this host's kernel would answer for.
func checkVIPOnHost(_ context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	for _, vip := range g.vips() {
		f, err := vipOnHost(g.nl, vip)
		if err != nil {
			return out, err
		}
		if f.Status != OK {
			g.onHost[vip] = true
			out = append(out, f)
		}
	}
	return unlessFound(out, well("", "none of %d VIPs", len(g.vips()))), nil
}

func vipOnHost(nl *netlink.Handle, vip netip.Addr) (Finding, error) {
	f := Finding{Subject: vip.String(), Status: Problem}
	at, err := addressesOf(nl, vip)
	if err != nil {
		return f, err
	}
	if len(at) > 0 {
		f.What = fmt.Sprintf("it is an address of %s of this host", at[0].iface)
		f.Why = "the daemon does not start: the kernel would answer beside the data plane"
		for _, a := range at {
			f.Mend = append(f.Mend, fmt.Sprintf("ip addr del %s dev %s", a.prefix, a.iface))
		}
		return f, nil
	}
	local, err := isLocal(nl, vip)
	if err != nil {
		return f, err
	}
	if local {
		f.What = "a route of this host makes it local"
		f.Why = "probes to it, and what the program passes, end in this host"
		f.Mend = []string{"ip route show table local", fmt.Sprintf("ip route del local %s", vip)}
		return f, nil
	}
	return well(vip.String(), "not of this host"), nil
}

// place is where a host has an address.
type place struct {
	iface   string
	ifindex int
	prefix  netip.Prefix
	flags   int
	valid   bool // preferred, not deprecated
}

// addressesOf lists where this host has an address.
func addressesOf(nl *netlink.Handle, addr netip.Addr) ([]place, error) {
	list, err := dump(func() ([]netlink.Addr, error) { return nl.AddrList(nil, familyOf(addr)) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []place
	for i := range list {
		a := &list[i]
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || ip.Unmap() != addr {
			continue
		}
		l, err := nl.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // gone meanwhile
		}
		bits, _ := a.Mask.Size()
		out = append(out, place{
			l.Attrs().Name, a.LinkIndex, netip.PrefixFrom(addr, bits), a.Flags, a.PreferedLft != 0,
		})
	}
	return out, nil
}

// isLocal reports whether the kernel delivers what is for addr to itself.
func isLocal(nl *netlink.Handle, addr netip.Addr) (bool, error) {
	r, err := routeTo(nl, addr)
	return err == nil && r.Type == unix.RTN_LOCAL, unlessNoRoute(err)
}

// errNoRoute says that the kernel has no way to an address.
var errNoRoute = errors.New("no route")

func unlessNoRoute(err error) error {
	if errors.Is(err, errNoRoute) {
		return nil
	}
	return err
}

// routeTo asks the kernel itself, so that rules count.
func routeTo(nl *netlink.Handle, addr netip.Addr) (netlink.Route, error) {
	list, err := nl.RouteGet(addr.AsSlice())
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH),
		errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL), err == nil && len(list) == 0:
		return netlink.Route{}, errNoRoute
	case err != nil:
		return netlink.Route{}, fmt.Errorf("route to %s: %w", addr, err)
	}
	return list[0], nil
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// dumpAttempts is how often a list is read anew that changed meanwhile.
const dumpAttempts = 5

func dump[T any](read func() ([]T, error)) (list []T, err error) {
	for range dumpAttempts {
		if list, err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}
