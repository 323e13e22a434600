package decap

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// ipv4Bits is how much longer a prefix gets when IPv4 is mapped into IPv6.
const ipv4Bits = 96

func networkOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

func rangeKey(p netip.Prefix) decapRangeKey {
	k := decapRangeKey{Bits: uint32(p.Bits()), Addr: p.Addr().As16()}
	if p.Addr().Is4() {
		k.Bits += ipv4Bits
	}
	return k
}

func (k decapRangeKey) prefix() netip.Prefix {
	addr, bits := netip.AddrFrom16(k.Addr), int(k.Bits)
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), bits-ipv4Bits
	}
	return netip.PrefixFrom(addr, bits)
}

func whole(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

func putRanges(m *ebpf.Map, ranges []netip.Prefix) error {
	for _, p := range ranges {
		if err := m.Put(rangeKey(p), uint32(1)); err != nil {
			return fmt.Errorf("accept %s: %w", p, err)
		}
	}
	return nil
}

// ranges reads what putRanges wrote, in the order of the map.
func ranges(m *ebpf.Map) (list []netip.Prefix, err error) {
	var key decapRangeKey
	var value uint32
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		list = append(list, key.prefix())
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read ranges: %w", err)
	}
	return list, nil
}
