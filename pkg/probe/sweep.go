package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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

func families() []int { return []int{netlink.FAMILY_V4, netlink.FAMILY_V6} }

// sweep removes what an earlier process of the gateway left, and rules of slots
// that have no device and so no owner.
func sweep(nl *netlink.Handle, gateway string) error {
	var errs []error
	for slot := range slots {
		d := newDevice(slot, gateway, nil)
		link, err := nl.LinkByName(d.name)
		var missing netlink.LinkNotFoundError
		switch {
		case errors.As(err, &missing) || err == nil && d.ours(link):
			errs = append(errs, d.remove(nl))
		case err != nil:
			errs = append(errs, fmt.Errorf("find %s: %w", d.name, err))
		}
	}
	return errors.Join(errs...)
}

// remove takes rules, routes and device away, as far as they are there.
func (d *device) remove(nl *netlink.Handle) error {
	var errs []error
	for _, family := range families() {
		errs = append(errs, d.removeRules(nl, family), d.removeRoutes(nl, family))
	}
	link, err := nl.LinkByName(d.name)
	if err == nil && d.ours(link) {
		if err := nl.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("delete %s: %w", d.name, err))
		}
	}
	return errors.Join(errs...)
}

func (d *device) removeRules(nl *netlink.Handle, family int) error {
	rules, err := dump(func() ([]netlink.Rule, error) { return nl.RuleList(family) })
	if err != nil {
		return unlessNoFamily(fmt.Errorf("list rules: %w", err))
	}
	var errs []error
	for i := range rules {
		r := &rules[i]
		if r.Table != d.table() && r.Table != d.reverseTable() {
			continue
		}
		r.Family = family
		if err := nl.RuleDel(r); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("delete rule %d: %w", r.Priority, err))
		}
	}
	return errors.Join(errs...)
}

func (d *device) removeRoutes(nl *netlink.Handle, family int) error {
	var errs []error
	for _, table := range []int{d.table(), d.reverseTable()} {
		routes, err := listRoutes(nl, family, table)
		if err != nil {
			return unlessNoFamily(err)
		}
		for i := range routes {
			if err := nl.RouteDel(&routes[i]); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("delete route of table %d: %w", table, err))
			}
		}
	}
	return errors.Join(errs...)
}

func listRoutes(nl *netlink.Handle, family, table int) ([]netlink.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) {
		return nl.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	})
	if errors.Is(err, unix.ENOENT) { // there is no such table
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list routes of table %d: %w", table, err)
	}
	for i := range routes {
		if routes[i].Dst == nil {
			routes[i].Dst = everything(family)
		}
	}
	return routes, nil
}

// unlessNoFamily drops the errors of a kernel without IPv6.
func unlessNoFamily(err error) error {
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// missing says what of the device is not there any more, "" for nothing.
func (d *device) missing(nl *netlink.Handle) (string, error) {
	link, err := nl.LinkByName(d.name)
	var notFound netlink.LinkNotFoundError
	switch {
	case errors.As(err, &notFound):
		return "device", nil
	case err != nil:
		return "", fmt.Errorf("find %s: %w", d.name, err)
	case !d.ours(link) || link.Attrs().RawFlags&unix.IFF_UP == 0:
		return "device", nil
	}
	for _, family := range families() {
		if family == netlink.FAMILY_V6 && d.ipv6 != nil {
			continue
		}
		rules, err := dump(func() ([]netlink.Rule, error) { return nl.RuleList(family) })
		if err != nil {
			return "", fmt.Errorf("list rules: %w", err)
		}
		want := func(r netlink.Rule) bool { return r.Table == d.table() && r.Mark == d.base() }
		if !slices.ContainsFunc(rules, want) {
			return "rule", nil
		}
		routes, err := listRoutes(nl, family, d.table())
		if err != nil {
			return "", err
		}
		if len(routes) < len(d.routes(0, family)) {
			return "route", nil
		}
	}
	return "", nil
}
