package loader

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Frontend is an address of ours with its rules; a rule id of 0 means none.
type Frontend struct {
	// Address is a single address, or an IPv6 /96.
	Address netip.Prefix
	// TCP, UDP and L3 are the rules for all ports of a protocol, and for
	// every protocol.
	TCP, UDP, L3 uint32
	Ports        []FrontendPort
}

// FrontendPort is the rule for one port.
type FrontendPort struct {
	Protocol uint8 // IP protocol number, 6 or 17
	Port     uint16
	Rule     uint32
}

const (
	frontAddress = 1
	frontPrefix  = 2
	frontPort    = 3
	frontProbes  = 32
)

// frontSlots is the size of one half of the frontend table: addresses with four
// ports each load it to 5/16, where no record of a hundred thousand is more than
// 23 slots behind its hash.
func frontSlots(frontends uint32) uint32 {
	slots := uint32(64)
	for slots < frontends*16 {
		slots <<= 1
	}
	return slots
}

// SetFrontends replaces all addresses and rules at once: the half of the table
// that is not in force is written, then one word makes it the one in force. On
// error the old ones stay.
func (d *Datapath) SetFrontends(list []Frontend) error {
	slots := uint32(len(d.fronts) / 2)
	half := 1 - d.control.FrontHalf
	table := make([]lbFront, slots)
	prefixes := uint32(0)
	for _, f := range list {
		kind := uint8(frontAddress)
		if !f.Address.IsSingleIP() {
			kind = frontPrefix
			prefixes++
		}
		base := lbFront{Addr: addressWords(f.Address.Masked().Addr())}
		address := base
		address.Kind, address.Rule, address.RuleUdp, address.RuleL3 = kind, uint16(f.TCP), uint16(f.UDP), uint16(f.L3)
		rest := takePorts(&address, f.Ports)
		if err := placeFront(table, address); err != nil {
			return fmt.Errorf("frontend %s: %w", f.Address, err)
		}
		for _, p := range rest {
			port := base
			port.Kind, port.Proto, port.Port, port.Rule = frontPort, p.Protocol, swap16(p.Port), uint16(p.Rule)
			if err := placeFront(table, port); err != nil {
				return fmt.Errorf("frontend %s port %d: %w", f.Address, p.Port, err)
			}
		}
	}
	d.Settle()
	copy(d.fronts[half*slots:(half+1)*slots], table)
	control := d.control
	control.FrontHalf, control.FrontPrefixes = half, prefixes
	return d.setControl(control)
}

// takePorts puts the first port of each protocol that has no rule for all ports
// into the address's own record, and returns those that need one of their own.
func takePorts(address *lbFront, ports []FrontendPort) (rest []FrontendPort) {
	for _, p := range ports {
		rule, only := &address.Rule, &address.TcpPort
		if p.Protocol != 6 {
			rule, only = &address.RuleUdp, &address.UdpPort
		}
		if *rule != 0 || p.Port == 0 {
			rest = append(rest, p)
			continue
		}
		*rule, *only = uint16(p.Rule), swap16(p.Port)
	}
	if len(rest) > 0 {
		address.Ports = 1
	}
	return rest
}

// setControl switches halves. The words are written one by one; each is a valid
// state with the others.
func (d *Datapath) setControl(c lbControlState) error {
	if err := d.objs.Control.Set(&c); err != nil {
		return fmt.Errorf("switch tables: %w", err)
	}
	d.control = c
	return nil
}

// Settle lets the packets finish that may still see what was in force before
// the last write; none takes longer than microseconds.
func (d *Datapath) Settle() {
	if !d.opts.Virtual {
		time.Sleep(time.Millisecond)
	}
}

// placeFront puts a record at most frontProbes slots behind its hash, as
// front_search of bpf/include/frontend.h looks for it.
func placeFront(table []lbFront, f lbFront) error {
	mask := uint32(len(table) - 1)
	word := uint32(f.Kind)<<24 | uint32(f.Proto)<<16 | uint32(f.Port)
	at := uint32(hashFinal(hashRound(hashRound(uint64(word), f.Addr[0]), f.Addr[1])))
	for i := range uint32(frontProbes) {
		if slot := &table[(at+i)&mask]; slot.Kind == 0 {
			*slot = f
			return nil
		}
	}
	return fmt.Errorf("frontend table of %d slots: %w", len(table), ErrFull)
}

// hashRound and hashFinal are those of bpf/include/hash.h.
func hashRound(h, word uint64) uint64 {
	h = (h ^ word) * 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

func hashFinal(h uint64) uint64 {
	h *= 0x94d049bb133111eb
	h ^= h >> 29
	h *= 0xff51afd7ed558ccd
	return h ^ h>>32
}

// addressWords is the 16-byte form of an address, IPv4 as ::ffff:a.b.c.d, as the
// program loads it.
func addressWords(a netip.Addr) [2]uint64 {
	b := a.As16()
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}

// swap16 converts a port between host and network order on a little-endian host,
// the only kind the object is built for.
func swap16(v uint16) uint16 { return v<<8 | v>>8 }
