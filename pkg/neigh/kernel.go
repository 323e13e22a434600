package neigh

import (
	"errors"
	"net"
	"net/netip"
)

// errNoRoute says that the kernel knows no way to an address.
var errNoRoute = errors.New("no route")

// kernel is what the resolver needs of the operating system.
type kernel interface {
	// events delivers what changed since the kernel was opened. It is closed
	// when changes may have been lost; the kernel must then be opened anew.
	events() <-chan []event
	links() ([]link, error)
	neighbours() ([]neighbour, error)
	// route returns errNoRoute where there is none.
	route(dst netip.Addr) (route, error)
	// probe makes the kernel ask for a hop's link address, unless it is sure
	// of it.
	probe(h hop) error
	// forget takes back that a hop was probed.
	forget(h hop) error
	close()
}

// event is one of linkChanged, linkGone, neighbourChanged, neighbourGone,
// routeChanged and rulesChanged.
type event any

type (
	linkChanged      struct{ link }
	linkGone         struct{ index int }
	neighbourChanged struct{ neighbour }
	neighbourGone    struct{ hop }
	// routeChanged may change the way to every address in the prefix.
	routeChanged struct{ dst netip.Prefix }
	// rulesChanged may change every route.
	rulesChanged struct{}
)

// hop names a neighbour: an address on a link.
type hop struct {
	link int
	via  netip.Addr
}

// link is an interface.
type link struct {
	index int
	name  string
	mac   net.HardwareAddr
	mtu   int
	up    bool // administratively and with carrier
}

// ethernet reports whether frames on the link have Ethernet headers.
func (l link) ethernet() bool { return len(l.mac) == 6 }

// route is the kernel's answer for one destination.
type route struct {
	hop
	mtu    int        // 0: that of the link
	source netip.Addr // the host's own; not valid: none
	local  bool
}

// neighbour is an entry of the kernel's neighbour table.
type neighbour struct {
	hop
	mac   net.HardwareAddr
	state reach
}

// reach is a neighbour's state, coarser than the kernel's.
type reach uint8

const (
	absent    reach = iota // not in the table, or being asked for
	failed                 // nobody answered
	probing                // has a link address and is being asked whether it holds
	stale                  // has a link address that should be confirmed
	reachable              // confirmed
	permanent              // set by hand: never probed
)

// valid reports whether the link address can be used.
func (r reach) valid() bool { return r >= probing }
