package netlab

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
)

// End is one end of a veth pair.
type End struct {
	NS   *Namespace
	Name string
	MAC  net.HardwareAddr // nil: the kernel chooses
	MTU  int              // bytes; 0: 1500
}

// Veth joins two namespaces (or one with itself) by a veth pair and brings both
// ends up. They are made for XDP: as many queues as CPUs, no IPv6 duplicate
// address detection, so that addresses are usable at once, and no offloads (see
// OffloadsOff). On an error no pair is left behind.
func Veth(a, b End) error {
	veth := netlink.NewVeth(linkAttrs(a.Name))
	queues := runtime.NumCPU()
	veth.NumTxQueues, veth.NumRxQueues = queues, queues
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(queues), uint32(queues)
	veth.HardwareAddr, veth.PeerHardwareAddr = a.MAC, b.MAC
	veth.MTU, veth.PeerMTU = a.MTU, uint32(b.MTU)
	veth.PeerName = b.Name
	veth.PeerNamespace = netlink.NsFd(int(b.NS.handle))
	if err := a.NS.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("create veth %s:%s - %s:%s: %w", a.NS.name, a.Name, b.NS.name, b.Name, err)
	}
	for _, end := range []End{a, b} {
		if err := end.prepare(); err != nil {
			return errors.Join(err, a.NS.DelLink(a.Name))
		}
	}
	return nil
}

// linkAttrs names a link with the kernel's default queue length. It is not
// zero: a zero would make the kernel choose "noqueue" with length 0.
func linkAttrs(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return attrs
}

func (e End) prepare() error {
	if err := e.NS.disableDAD(e.Name); err != nil {
		return err
	}
	if err := e.NS.OffloadsOff(e.Name); err != nil {
		return err
	}
	return e.NS.LinkUp(e.Name)
}

// Bridge creates a bridge, adds the ports to it and brings it up. Ports must
// exist in the namespace. The bridge forwards at once (no spanning tree) and
// floods multicast.
func (n *Namespace) Bridge(name string, ports ...string) error {
	off := false
	bridge := &netlink.Bridge{LinkAttrs: linkAttrs(name), MulticastSnooping: &off}
	if err := n.nl.LinkAdd(bridge); err != nil {
		return fmt.Errorf("create bridge %s:%s: %w", n.name, name, err)
	}
	if err := n.disableDAD(name); err != nil {
		return err
	}
	for _, port := range ports {
		if err := n.SetMaster(port, name); err != nil {
			return err
		}
	}
	return n.LinkUp(name)
}

// SetMaster makes port a port of the bridge.
func (n *Namespace) SetMaster(port, bridge string) error {
	return n.onLink(port, "set bridge of", func(l netlink.Link) error {
		master, err := n.nl.LinkByName(bridge)
		if err != nil {
			return err
		}
		return n.nl.LinkSetMaster(l, master)
	})
}

// Link returns the interface of that name as the kernel describes it now.
func (n *Namespace) Link(name string) (*netlink.LinkAttrs, error) {
	l, err := n.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %s:%s: %w", n.name, name, err)
	}
	return l.Attrs(), nil
}

// LinkUp brings an interface up.
func (n *Namespace) LinkUp(name string) error {
	return n.onLink(name, "bring up", n.nl.LinkSetUp)
}

// LinkDown takes an interface down. Its IPv6 addresses and its routes go.
func (n *Namespace) LinkDown(name string) error {
	return n.onLink(name, "take down", n.nl.LinkSetDown)
}

// DelLink deletes an interface; of a veth pair, both ends.
func (n *Namespace) DelLink(name string) error {
	return n.onLink(name, "delete", n.nl.LinkDel)
}

// SetMAC changes an interface's link address, also while it is up.
func (n *Namespace) SetMAC(name string, mac net.HardwareAddr) error {
	return n.onLink(name, "set link address of", func(l netlink.Link) error {
		return n.nl.LinkSetHardwareAddr(l, mac)
	})
}

// SetMTU changes an interface's MTU, in bytes.
func (n *Namespace) SetMTU(name string, mtu int) error {
	return n.onLink(name, "set MTU of", func(l netlink.Link) error {
		return n.nl.LinkSetMTU(l, mtu)
	})
}

// onLink looks a link up by name and runs f on it.
func (n *Namespace) onLink(name, what string, f func(netlink.Link) error) error {
	l, err := n.nl.LinkByName(name)
	if err == nil {
		err = f(l)
	}
	if err != nil {
		return fmt.Errorf("%s link %s:%s: %w", what, n.name, name, err)
	}
	return nil
}
