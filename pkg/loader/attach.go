package loader

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

// xdpAttachedSKB is XDP_ATTACHED_SKB of linux/if_link.h.
const xdpAttachedSKB = 2

// linkPrefix begins the names of pinned links; the interface's follows.
const linkPrefix = "link-"

// attachment is the program on one interface.
type attachment struct {
	link    link.Link
	ifindex uint32
	pin     string // "" when not pinned
	mode    lb.XDPMode
}

// Attach puts the program on an interface, or in the place of the one that an
// earlier process left pinned there: no packet goes unhandled in between. The
// interface's address becomes one that is ours. Native mode is native or an
// error that says why; it never falls back to generic.
func (d *Datapath) Attach(iface string, mode lb.XDPMode) error {
	dev, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", iface, err)
	}
	if len(dev.HardwareAddr) != 6 {
		return fmt.Errorf("attach to %s: not an Ethernet interface", iface)
	}
	if err := d.SetPort(uint32(dev.Index), [6]byte(dev.HardwareAddr)); err != nil {
		return fmt.Errorf("attach to %s: %w", iface, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	program := d.objs.L4lbIngress
	if d.lent != nil {
		program = d.lent
	}
	a := &attachment{ifindex: uint32(dev.Index), mode: mode}
	if d.opts.PinDir != "" {
		a.pin = filepath.Join(d.opts.PinDir, linkPrefix+iface)
		if a.link, err = takeOver(a.pin, dev.Index, program, mode); err != nil {
			return fmt.Errorf("attach to %s: %w", iface, d.explainRefusal(dev, mode, err))
		}
	}
	if a.link == nil {
		if a.link, err = attachNew(dev, program, mode); err != nil {
			return fmt.Errorf("attach to %s: %w", iface, d.explainRefusal(dev, mode, err))
		}
		if a.pin != "" {
			if err := a.link.Pin(a.pin); err != nil {
				a.link.Close()
				return fmt.Errorf("attach to %s: pin: %w", iface, err)
			}
		}
	}
	d.links[iface] = a
	return nil
}

// takeOver replaces the program of a pinned link. A link whose interface is
// gone, or which was attached in another mode, is removed: nil is returned.
func takeOver(pin string, ifindex int, prog *ebpf.Program, mode lb.XDPMode) (link.Link, error) {
	old, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open pinned link: %w", err)
	}
	info, err := old.Info()
	if err == nil {
		if xdp := info.XDP(); xdp != nil && int(xdp.Ifindex) == ifindex && attachedMode(ifindex) == mode {
			if err := old.Update(prog); err != nil {
				old.Close()
				return nil, fmt.Errorf("replace program: %w", err)
			}
			return old, nil
		}
	}
	if err := remove(old); err != nil {
		return nil, fmt.Errorf("remove stale link: %w", err)
	}
	return nil, nil
}

// remove detaches a link at once and forgets it. Without the first step it would
// stay attached for a while after its last handle is closed.
func remove(l link.Link) error {
	return errors.Join(l.Detach(), l.Unpin(), l.Close())
}

// removePinned removes the links that are pinned in dir and that keep does not
// want.
func removePinned(dir string, keep func(iface string) bool) error {
	pins, err := filepath.Glob(filepath.Join(dir, linkPrefix+"*"))
	if err != nil {
		return fmt.Errorf("list pinned links: %w", err)
	}
	var errs []error
	for _, pin := range pins {
		if keep(filepath.Base(pin)[len(linkPrefix):]) {
			continue
		}
		l, err := link.LoadPinnedLink(pin, nil)
		if err == nil {
			err = remove(l)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove pinned link %s: %w", pin, err))
		}
	}
	return errors.Join(errs...)
}

func attachNew(dev *net.Interface, prog *ebpf.Program, mode lb.XDPMode) (link.Link, error) {
	flags := link.XDPDriverMode
	if mode == lb.XDPGeneric {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Index, Flags: flags})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("%w: %s: detach it first", ErrBusy, holder(dev.Index))
	}
	return l, err
}

// attachedMode is the mode of the XDP program on an interface, "" for none.
func attachedMode(ifindex int) lb.XDPMode {
	dev, err := netlink.LinkByIndex(ifindex)
	if err != nil || dev.Attrs().Xdp == nil || !dev.Attrs().Xdp.Attached {
		return ""
	}
	if dev.Attrs().Xdp.AttachMode == xdpAttachedSKB {
		return lb.XDPGeneric
	}
	return lb.XDPNative
}

// holder names the XDP program that is on an interface.
func holder(ifindex int) string {
	dev, err := netlink.LinkByIndex(ifindex)
	if err != nil || dev.Attrs().Xdp == nil || dev.Attrs().Xdp.ProgId == 0 {
		return "its program is not known"
	}
	id := ebpf.ProgramID(dev.Attrs().Xdp.ProgId)
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fmt.Sprintf("program %d", id)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return fmt.Sprintf("program %d", id)
	}
	return fmt.Sprintf("program %d (%s)", id, info.Name)
}

// Refresh follows a change of an attached interface's hardware address.
func (d *Datapath) Refresh(iface string) error {
	dev, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("refresh %s: %w", iface, err)
	}
	return d.SetPort(uint32(dev.Index), [6]byte(dev.HardwareAddr))
}

// DetachOthers removes pinned programs from interfaces that are no longer
// configured.
func (d *Datapath) DetachOthers() error {
	if d.opts.PinDir == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return removePinned(d.opts.PinDir, func(iface string) bool { return d.links[iface] != nil })
}

// Detach takes the program off all interfaces and forgets the pinned state.
func (d *Datapath) Detach() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for iface, a := range d.links {
		errs = append(errs, remove(a.link))
		delete(d.links, iface)
	}
	if d.opts.PinDir != "" {
		errs = append(errs, Discard(d.opts.PinDir))
	}
	return errors.Join(errs...)
}
