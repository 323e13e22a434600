package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// prefix takes a network in CIDR form without host bits.
func prefix(n *node) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(n.text); err == nil {
		return netip.Prefix{}, fmt.Errorf("has no prefix length: write %s/%d for this one address", a, a.BitLen())
	}
	p, err := netip.ParsePrefix(n.text)
	if err != nil {
		return netip.Prefix{}, errors.New("is not a network: write it as 10.1.0.0/16 or 2001:db8::/48")
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("is an IPv4 network in IPv6 form: write it as IPv4")
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("has host bits set: write %s", p.Masked())
	}
	return p, nil
}

// unicast takes an address that packets can be sent to from another host.
func unicast(n *node) (netip.Addr, error) {
	a, err := netip.ParseAddr(n.text)
	if err != nil {
		return netip.Addr{}, errors.New("is not an address: write it as 192.0.2.10 or 2001:db8::10")
	}
	return a, checkUnicast(a)
}

func checkUnicast(a netip.Addr) error {
	switch {
	case a.Zone() != "":
		return errors.New("has an interface name: write the address alone")
	case a.Is4In6():
		return fmt.Errorf("is an IPv4 address in IPv6 form: write %s", a.Unmap())
	case a.IsUnspecified(), a.IsMulticast(), a.IsLoopback(), a.IsLinkLocalUnicast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("cannot be reached from another host: use a unicast address that is neither loopback nor link-local")
	}
	return nil
}

// frontend takes one address, or an IPv6 /96 (semantics.md 6).
func frontend(n *node) (netip.Prefix, error) {
	if strings.Contains(n.text, "addresses/") {
		return netip.Prefix{}, errors.New("is a reference to an address resource: write the address itself")
	}
	if !strings.Contains(n.text, "/") {
		a, err := unicast(n)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := prefix(n)
	if err != nil {
		return netip.Prefix{}, err
	}
	if !p.IsSingleIP() && (p.Addr().Is4() || p.Bits() != 96) {
		return netip.Prefix{}, errors.New("is a network: use one address, or an IPv6 /96")
	}
	return p, checkUnicast(p.Addr())
}

// tunnelSource takes a network whose addresses packets can come from.
func tunnelSource(n *node) (netip.Prefix, error) {
	p, err := prefix(n)
	if err != nil {
		return netip.Prefix{}, err
	}
	if p.Addr().Is6() && p.Bits() < 64 {
		return netip.Prefix{}, errors.New("is larger than flows can be told apart by: use a /64 or longer")
	}
	if p.Addr().Is4() && p.Bits() < 8 {
		return netip.Prefix{}, errors.New("holds addresses that are no host's: use a /8 or longer")
	}
	return p, checkUnicast(p.Addr())
}
