package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"l4lb/pkg/controller"
)

// hostSettle lets a storm of changes pass before the addresses are read anew.
const hostSettle = 50 * time.Millisecond

// hostAddresses are those of this host, each with the length of its subnet.
func hostAddresses() ([]netip.Prefix, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this host: %w", err)
	}
	var out []netip.Prefix
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// readHost is the gateway's own network: what routes must leave alone, and the
// interfaces that they may be restricted to. One that is not there has no index.
func readHost(interfaces []string) (controller.Host, error) {
	addresses, err := hostAddresses()
	if err != nil {
		return controller.Host{}, err
	}
	h := controller.Host{Addresses: addresses, Interfaces: map[string]uint32{}}
	for _, name := range interfaces {
		if dev, err := net.InterfaceByName(name); err == nil {
			h.Interfaces[name] = uint32(dev.Index)
		}
	}
	return h, nil
}

// hostWatch tells the controller when the gateway's addresses or interfaces
// change.
type hostWatch struct {
	interfaces []string
	set        func(context.Context, controller.Host) error
	log        *slog.Logger
}

// run follows the kernel's messages until ctx ends.
func (w *hostWatch) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("reading addresses anew", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(resubscribeDelay):
			}
		}
	}
	return nil
}

// follow returns when ctx ends or messages were lost. It subscribes before it
// reads, so that no change is missed.
func (w *hostWatch) follow(ctx context.Context) error {
	addrs, links := make(chan netlink.AddrUpdate, 64), make(chan netlink.LinkUpdate, 64)
	done := make(chan struct{})
	defer close(done)
	ignore := func(error) {} // the channel is closed then
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: ignore}); err != nil {
		return fmt.Errorf("follow addresses: %w", err)
	}
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: ignore}); err != nil {
		return fmt.Errorf("follow links: %w", err)
	}
	read := time.NewTimer(0)
	defer read.Stop()
	for {
		ok := true
		select {
		case <-ctx.Done():
			return nil
		case _, ok = <-addrs:
			read.Reset(hostSettle)
		case u, alive := <-links:
			if ok = alive; ok && slices.Contains(w.interfaces, u.Attrs().Name) {
				read.Reset(hostSettle)
			}
		case <-read.C:
			h, err := readHost(w.interfaces)
			if err == nil {
				err = w.set(ctx, h)
			}
			if err != nil {
				return err
			}
		}
		if !ok {
			return fmt.Errorf("follow addresses and links: subscription ended")
		}
	}
}
