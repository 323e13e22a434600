package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

// resubscribeDelay lets a storm of link changes pass before links are read anew.
const resubscribeDelay = 500 * time.Millisecond

// attacher is what ports needs of *loader.Datapath.
type attacher interface {
	Attach(iface string, mode lb.XDPMode) error
	Refresh(iface string) error
}

// ports keeps the program on the gateway's interfaces: it follows changes of
// their link addresses and interfaces that are made anew.
type ports struct {
	dp   attacher
	mode lb.XDPMode
	log  *slog.Logger

	mu    sync.Mutex
	byID  map[string]*port // by interface name
	names []string
}

type port struct {
	index    int
	mac      net.HardwareAddr
	attached bool
}

func newPorts(dp attacher, g lb.Gateway, log *slog.Logger) *ports {
	p := &ports{dp: dp, mode: g.XDPMode, log: log, byID: map[string]*port{}, names: g.Interfaces}
	for _, name := range g.Interfaces {
		p.byID[name] = &port{}
	}
	return p
}

// attachAll puts the program on every interface, or stops at the first error.
func (p *ports) attachAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.names {
		if err := p.attach(name); err != nil {
			return err
		}
	}
	return nil
}

// attach is for a caller that holds mu.
func (p *ports) attach(name string) error {
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", name, err)
	}
	if err := p.dp.Attach(name, p.mode); err != nil {
		return err
	}
	*p.byID[name] = port{index: dev.Index, mac: dev.HardwareAddr, attached: true}
	p.log.Info("attached", "interface", name, "mode", p.mode)
	return nil
}

// allAttached reports whether the program is on every interface.
func (p *ports) allAttached() bool {
	for _, ok := range p.attached() {
		if !ok {
			return false
		}
	}
	return true
}

// attached says for each interface whether the program is on it.
func (p *ports) attached() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]bool, len(p.byID))
	for name, port := range p.byID {
		out[name] = port.attached
	}
	return out
}

// run follows the kernel's link messages until ctx ends.
func (p *ports) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.follow(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("reading links anew", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(resubscribeDelay):
			}
		}
	}
	return nil
}

// follow returns when ctx ends or messages were lost.
func (p *ports) follow(ctx context.Context) error {
	updates, done := make(chan netlink.LinkUpdate, 64), make(chan struct{})
	defer close(done)
	var lost error
	options := netlink.LinkSubscribeOptions{ListExisting: true, ErrorCallback: func(err error) { lost = err }}
	if err := netlink.LinkSubscribeWithOptions(updates, done, options); err != nil {
		return fmt.Errorf("follow links: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case u, ok := <-updates:
			if !ok {
				return fmt.Errorf("follow links: subscription ended: %w", lost)
			}
			attrs := u.Attrs()
			p.update(attrs.Name, attrs.Index, attrs.HardwareAddr, u.Header.Type == unix.RTM_DELLINK)
		}
	}
}

// update takes over what the kernel says about a link.
func (p *ports) update(name string, index int, mac net.HardwareAddr, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.byID[name]
	switch {
	case at == nil || at.index == 0:
		return // not ours, or not attached for the first time yet
	case gone:
		if at.attached && at.index == index {
			at.attached = false
			p.log.Error("interface is gone: nothing is forwarded on it until it is back", "interface", name)
		}
	case at.index != index:
		if err := p.attach(name); err != nil {
			at.attached = false
			p.log.Error("interface is back, attach it anew", "interface", name, "err", err)
		}
	case !bytes.Equal(at.mac, mac):
		if err := p.dp.Refresh(name); err != nil {
			p.log.Error("follow link address", "interface", name, "err", err)
			return
		}
		at.mac = mac
		p.log.Info("link address changed", "interface", name, "mac", mac.String())
	}
}
