package probe

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"net"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Gateways that share a network namespace have a slot each. What a slot uses is
// listed in docs/setup/health-checks.md.
const (
	slots       = 16
	devicePrefx = "l4lb-p" // and the slot; the other end has "l4lb-q"
	peerPrefix  = "l4lb-q"

	markBase = 0x4c000000
	markMask = 0xffffffff &^ maxIndex

	tableBase   = 76000 // routes of marked packets
	reverseBase = 76100 // routes that the reverse path filter is shown

	priorityBase        = 900 // of the rule for marked packets
	reversePriorityBase = 950

	prohibitMetric = 1<<31 - 1
)

// device is what sends marked packets through the program.
type device struct {
	slot int
	name string
	mac  net.HardwareAddr
	prog *ebpf.Program
	ipv6 error // why IPv6 probes cannot be sent
}

func newDevice(slot int, gateway string, prog *ebpf.Program) device {
	return device{slot: slot, name: fmt.Sprint(devicePrefx, slot), mac: addressOf(gateway), prog: prog}
}

// addressOf is the link address of a gateway's device. The device is known by
// it, from the moment it exists.
func addressOf(gateway string) net.HardwareAddr {
	h := fnv.New32a()
	h.Write([]byte(gateway))
	return h.Sum([]byte{0x02, 0x4c})
}

// mark is what the socket of a probe carries.
func (d *device) mark(index uint32) uint32 { return d.base() | index }

func (d *device) base() uint32      { return markBase | uint32(d.slot)<<indexBits }
func (d *device) table() int        { return tableBase + d.slot }
func (d *device) reverseTable() int { return reverseBase + d.slot }

// makeDevice makes the device in the first slot that is free.
func makeDevice(nl *netlink.Handle, gateway string, prog *ebpf.Program) (device, error) {
	for slot := range slots {
		d := newDevice(slot, gateway, prog)
		err := d.add(nl)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err == nil {
			err = d.configure(nl)
		}
		if err != nil {
			return device{}, errors.Join(fmt.Errorf("make device %s: %w", d.name, err), d.remove(nl))
		}
		return d, nil
	}
	return device{}, fmt.Errorf("make device: all of %s0 to %s%d are in use by other gateways", devicePrefx, devicePrefx, slots-1)
}

func (d *device) add(nl *netlink.Handle) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = d.name, d.mac, defaultMTU
	veth := netlink.NewVeth(attrs)
	veth.PeerName = fmt.Sprint(peerPrefix, d.slot)
	return nl.LinkAdd(veth)
}

// configure brings the device to the state it must have, whatever is there.
func (d *device) configure(nl *netlink.Handle) error {
	link, err := nl.LinkByName(d.name)
	if err != nil {
		return err
	}
	for _, name := range []string{d.name, fmt.Sprint(peerPrefix, d.slot)} {
		end, err := nl.LinkByName(name)
		if err != nil {
			return err
		}
		// The device needs no address. An error means there is no IPv6.
		_ = nl.LinkSetIP6AddrGenMode(end, 1)
		if err := errors.Join(nl.LinkSetARPOff(end), nl.LinkSetUp(end)); err != nil {
			return fmt.Errorf("bring up: %w", err)
		}
	}
	if err := d.attach(nl, link.Attrs().Index); err != nil {
		return err
	}
	if err := d.configureFamily(nl, link.Attrs().Index, netlink.FAMILY_V4); err != nil {
		return err
	}
	d.ipv6 = d.configureFamily(nl, link.Attrs().Index, netlink.FAMILY_V6)
	return nil
}

// attach puts the program at the device's exit. The classifier works on every
// kernel that the data plane runs on, and nobody else has one on this device.
func (d *device) attach(nl *netlink.Handle, index int) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0),
	}}
	if err := nl.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("add classifier: %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
		},
		Fd: d.prog.FD(), Name: "l4lb_probe", DirectAction: true,
	}
	if err := nl.FilterReplace(filter); err != nil {
		return fmt.Errorf("attach program: %w", err)
	}
	return nil
}

// configureFamily makes the routes first, so that the rule never leads to an
// empty table: then a probe would go to the VIP like a client's packet, and
// any healthy backend would answer. Should the device vanish, what is left is
// the route that prohibits.
func (d *device) configureFamily(nl *netlink.Handle, index, family int) error {
	for _, route := range d.routes(index, family) {
		if err := nl.RouteReplace(route); err != nil {
			return fmt.Errorf("add route to table %d: %w", d.table(), err)
		}
	}
	if err := nl.RuleAdd(d.rule(family)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add rule for mark %#x: %w", d.base(), err)
	}
	return nil
}

func (d *device) routes(index, family int) []*netlink.Route {
	out := &netlink.Route{Family: family, Table: d.table(), Dst: everything(family), LinkIndex: index, Priority: 1}
	if family == netlink.FAMILY_V4 {
		out.Scope = netlink.SCOPE_LINK
	}
	last := &netlink.Route{
		Family: family, Table: d.table(), Dst: everything(family), Type: unix.RTN_PROHIBIT, Priority: prohibitMetric,
	}
	return []*netlink.Route{last, out}
}

func (d *device) rule(family int) *netlink.Rule {
	r, mask := netlink.NewRule(), uint32(markMask)
	r.Family, r.Table, r.Priority, r.Mark, r.Mask = family, d.table(), priorityBase+d.slot, d.base(), &mask
	return r
}

func everything(family int) *net.IPNet {
	size := net.IPv4len
	if family == netlink.FAMILY_V6 {
		size = net.IPv6len
	}
	return &net.IPNet{IP: make(net.IP, size), Mask: make(net.IPMask, size)}
}

func (d *device) setMTU(nl *netlink.Handle, mtu int) error {
	link, err := nl.LinkByName(d.name)
	if err == nil {
		err = nl.LinkSetMTU(link, mtu)
	}
	if err != nil {
		return fmt.Errorf("set MTU of %s: %w", d.name, err)
	}
	return nil
}

// ours reports whether a link is the gateway's device.
func (d *device) ours(link netlink.Link) bool {
	return link.Attrs().Name == d.name && bytes.Equal(link.Attrs().HardwareAddr, d.mac)
}
