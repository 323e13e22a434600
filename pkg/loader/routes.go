package loader

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Route is what becomes of packets for a destination that are sent to the
// gateway to be forwarded. The longest prefix counts.
type Route struct {
	Dest netip.Prefix
	// Hops are tried in order; the first that fits a packet is taken. A packet
	// that none fits, as where there are none, is the kernel's.
	Hops []Hop
}

// Hop is one way for the packets of a destination.
type Hop struct {
	// Source is where a packet comes from; the zero value is anywhere.
	Source netip.Prefix
	// IfIndex is the interface it came in at; 0 is any.
	IfIndex uint32
	// Rule is a rule record with Routed set.
	Rule uint32
}

// RouteHops is how many hops a destination can have.
const RouteHops = len(lbRouteValue{}.Hop)

// routeKey is struct route_key of bpf/include/types.h.
type routeKey struct {
	Bits uint32
	Addr [16]byte
}

// everyIPv4 is what the program sees of 0.0.0.0/0.
var everyIPv4 = netip.MustParsePrefix("0.0.0.0/0")

// SetRoutes replaces all routes at once: the new table is built aside and one
// write puts it in force. On error the old one stays.
func (d *Datapath) SetRoutes(list []Route) error {
	if len(list) == 0 {
		return d.clearRoutes()
	}
	table, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "l4lb_route", Type: ebpf.LPMTrie, Flags: unix.BPF_F_NO_PREALLOC, MaxEntries: uint32(len(list) + 1),
		KeySize: uint32(unsafe.Sizeof(routeKey{})), ValueSize: uint32(unsafe.Sizeof(lbRouteValue{})),
	})
	if err != nil {
		return fmt.Errorf("create route table: %w", err)
	}
	defer table.Close()
	// ::/0 does not take IPv4 packets, which are in the same trie.
	if err := putRoute(table, Route{Dest: everyIPv4}); err != nil {
		return err
	}
	for _, r := range list {
		if err := putRoute(table, r); err != nil {
			return err
		}
	}
	if err := d.objs.L4lbRoutes.Put(uint32(0), table); err != nil {
		return fmt.Errorf("put route table in force: %w", err)
	}
	control := d.control
	control.Routes = uint32(len(list))
	return d.setControl(control)
}

func (d *Datapath) clearRoutes() error {
	control := d.control
	control.Routes = 0
	if err := d.setControl(control); err != nil {
		return err
	}
	err := d.objs.L4lbRoutes.Delete(uint32(0))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take route table out of force: %w", err)
	}
	return nil
}

func putRoute(table *ebpf.Map, r Route) error {
	var value lbRouteValue
	if len(r.Hops) > RouteHops {
		return fmt.Errorf("route to %s has %d hops: %w (%d)", r.Dest, len(r.Hops), ErrFull, RouteHops)
	}
	value.Hops = uint32(len(r.Hops))
	for i, h := range r.Hops {
		to := &value.Hop[i]
		to.Ifindex, to.Rule = h.IfIndex, uint16(h.Rule)
		if h.Source.IsValid() {
			to.Source, to.Mask = addressWords(h.Source.Masked().Addr()), maskWords(h.Source)
		}
	}
	key := routeKey{Bits: uint32(mappedBits(r.Dest)), Addr: r.Dest.Masked().Addr().As16()}
	if err := table.Put(&key, &value); err != nil {
		return fmt.Errorf("store route to %s: %w", r.Dest, err)
	}
	return nil
}

// mappedBits is the length of a prefix in the form that IPv4 addresses have in
// IPv6.
func mappedBits(p netip.Prefix) int {
	if p.Addr().Is4() {
		return p.Bits() + 96
	}
	return p.Bits()
}

// maskWords is the mask of a prefix as the program applies it.
func maskWords(p netip.Prefix) [2]uint64 {
	var mask [16]byte
	for i := range mappedBits(p) {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return addressWords(netip.AddrFrom16(mask))
}
