package daemon

import (
	"net"

	"l4lb/pkg/lb"
)

// needsFrags reports whether a packet of some interface may be longer than a page,
// so that the driver hands it over in several buffers. In generic mode the kernel
// makes one of them. An interface that is not there yet does not count.
func needsFrags(g lb.Gateway) bool {
	if g.XDPMode != lb.XDPNative {
		return false
	}
	for _, name := range g.Interfaces {
		if dev, err := net.InterfaceByName(name); err == nil && dev.MTU > lb.PageMTU {
			return true
		}
	}
	return false
}
