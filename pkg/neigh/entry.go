// Package neigh keeps, for a set of backend addresses, what is needed to put a
// frame on the wire to each: the interface, its link address, and the link
// address of the next hop. It follows the kernel's routing and neighbour tables
// by netlink and makes the kernel resolve what it does not know, because packets
// that XDP forwards never touch those tables.
package neigh

import (
	"bytes"
	"net"
	"net/netip"
	"time"
)

// State says what is known about the way to an address.
type State string

const (
	// Pending means that the route was not looked up yet.
	Pending State = "PENDING"
	// Resolved means that the kernel confirmed the link address recently.
	Resolved State = "RESOLVED"
	// Stale means that the link address was confirmed once and nothing speaks
	// against it. The kernel asks again from time to time.
	Stale State = "STALE"
	// Unresolved means that nobody answers for the next hop. The MAC, if
	// any, is the last one known.
	Unresolved State = "UNRESOLVED"
	// NoRoute means that the kernel has no route to the address.
	NoRoute State = "NO_ROUTE"
	// LinkDown means that the interface of the route is down or has no
	// carrier.
	LinkDown State = "LINK_DOWN"
	// Local means that the address is the host's own.
	Local State = "LOCAL"
	// NotEthernet means that the interface has no Ethernet address.
	NotEthernet State = "NOT_ETHERNET"
)

// Usable reports whether a frame can be sent.
func (s State) Usable() bool { return s == Resolved || s == Stale }

// Entry is the way to one address. Its slices are never changed once the entry
// was handed out and must not be changed by the receiver.
type Entry struct {
	Addr netip.Addr
	// Via is the next hop: the router, or Addr itself where it is on the
	// link. It is not valid without a route.
	Via       netip.Addr
	MAC       net.HardwareAddr // of the next hop; the last one known, nil if none ever was
	LinkIndex int              // 0 without a route
	LinkName  string
	SrcMAC    net.HardwareAddr // of the interface
	MTU       int              // bytes, of the interface or, where less, of the route
	Source    netip.Addr       // of the host, towards Addr; not valid where it has none
	State     State
	// Since is when the entry last changed in a way that matters to
	// forwarding; a change between RESOLVED and STALE does not.
	Since time.Time
}

// Usable reports whether a frame can be sent to the address.
func (e Entry) Usable() bool { return e.State.Usable() }

// sameWay reports whether two entries forward alike.
func (e Entry) sameWay(o Entry) bool {
	return (e.State == o.State || e.Usable() && o.Usable()) &&
		e.Via == o.Via && e.LinkIndex == o.LinkIndex && e.LinkName == o.LinkName && e.MTU == o.MTU && e.Source == o.Source &&
		bytes.Equal(e.MAC, o.MAC) && bytes.Equal(e.SrcMAC, o.SrcMAC)
}
