package loader

import (
	"fmt"
	"net/netip"
	"slices"
)

// ZonePrefix says where the clients of a prefix are.
type ZonePrefix struct {
	Prefix      netip.Prefix
	Zone        uint8 // id below ZoneMax; 0 for no zone
	OtherRegion bool
	// Overrides makes the prefix win over all before it in the list that lie
	// within it, longer ones too.
	Overrides bool
}

const (
	zoneOtherRegion = 1 << 8
	zoneNode        = 1 << 31
	zoneRoot4       = 0
	zoneRoot6       = 1
)

// SetZones replaces the client zones at once. The longest prefix wins, except
// over those that override it. On error the old ones stay.
func (d *Datapath) SetZones(list []ZonePrefix) error {
	nodes, err := buildZones(list, uint32(len(d.zones)/2))
	if err != nil {
		return err
	}
	half := 1 - d.control.ZoneHalf
	d.Settle()
	copy(d.zones[half*uint32(len(d.zones)/2):], nodes)
	control := d.control
	control.ZoneHalf = half
	return d.setControl(control)
}

// buildZones lays the prefixes out as a trie of one byte a level. Shorter
// prefixes go first, so that longer ones overwrite their part, and those that
// override last: they overwrite whole subtrees.
func buildZones(list []ZonePrefix, capacity uint32) ([]lbZoneNode, error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b ZonePrefix) int {
		switch {
		case a.Overrides && b.Overrides:
			return 0
		case a.Overrides:
			return 1
		case b.Overrides:
			return -1
		}
		return a.Prefix.Bits() - b.Prefix.Bits()
	})
	nodes := make([]lbZoneNode, 2, 16)
	for _, z := range list {
		leaf := uint32(z.Zone)
		if z.OtherRegion {
			leaf |= zoneOtherRegion
		}
		node := uint32(zoneRoot4)
		if z.Prefix.Addr().Is6() {
			node = zoneRoot6
		}
		addr, bits := z.Prefix.Masked().Addr().AsSlice(), z.Prefix.Bits()
		for ; bits > 8; bits -= 8 {
			child := nodes[node].Child[addr[0]]
			if child&zoneNode == 0 {
				if uint32(len(nodes)) >= capacity {
					return nil, fmt.Errorf("client zone %s: zone table of %d nodes: %w", z.Prefix, capacity, ErrFull)
				}
				nodes = append(nodes, filledNode(child))
				child = zoneNode | uint32(len(nodes)-1)
				nodes[node].Child[addr[0]] = child
			}
			node, addr = child&^zoneNode, addr[1:]
		}
		first := 0
		if bits > 0 {
			first = int(addr[0])
		}
		for i := range 1 << (8 - bits) {
			nodes[node].Child[first+i] = leaf
		}
	}
	return nodes, nil
}

func filledNode(leaf uint32) lbZoneNode {
	var n lbZoneNode
	for i := range n.Child {
		n.Child[i] = leaf
	}
	return n
}
