package decap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/nlwatch"
)

const (
	// followEvery is how often addresses are read without a reason.
	followEvery = 10 * time.Second
	// dumpAttempts is how often a list is read anew that changed meanwhile.
	dumpAttempts = 5
)

// ErrInterfaceGone is returned by Run when the interface is deleted, which takes
// the program with it.
var ErrInterfaceGone = errors.New("the interface is gone")

// Run follows the interface's addresses until ctx ends.
func (d *Decap) Run(ctx context.Context) error {
	watch, err := nlwatch.Open(d.ns, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("follow addresses: %w", err)
	}
	defer watch.Close()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if err := d.follow(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watch.Changes():
		case <-tick.C:
		}
	}
}

// follow makes tunnels end at the addresses that the host has now.
func (d *Decap) follow() error {
	dev, err := d.nl.LinkByIndex(d.index)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: %w", d.opts.Interface, ErrInterfaceGone)
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", d.opts.Interface, err)
	}
	wanted := d.opts.Addresses
	if len(wanted) == 0 {
		if wanted, err = d.addresses(dev); err != nil {
			return err
		}
	}
	return d.setLocal(wanted)
}

func (d *Decap) addresses(dev netlink.Link) (list []netip.Addr, err error) {
	var found []netlink.Addr
	for range dumpAttempts {
		if found, err = d.nl.AddrList(dev, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", d.opts.Interface, err)
	}
	for _, a := range found {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			list = append(list, addr.Unmap())
		}
	}
	return list, nil
}

// setLocal replaces the outer destinations.
func (d *Decap) setLocal(wanted []netip.Addr) error {
	wanted = slices.Clone(wanted)
	slices.SortFunc(wanted, netip.Addr.Compare)
	wanted = slices.Compact(wanted)
	if slices.Equal(wanted, d.local) {
		return nil
	}
	for _, a := range wanted {
		if err := putRanges(d.objs.L4lbEnds, []netip.Prefix{whole(a)}); err != nil {
			return err
		}
	}
	for _, a := range d.local {
		if slices.Contains(wanted, a) {
			continue
		}
		if err := d.objs.L4lbEnds.Delete(rangeKey(whole(a))); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("refuse %s: %w", a, err)
		}
	}
	d.local = wanted
	d.opts.Logger.Info("tunnels end here", "interface", d.opts.Interface, "addresses", wanted)
	return nil
}
