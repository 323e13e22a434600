package lb

import "net/netip"

// Way is how packets get to a backend: what tells two tunnels to it apart. It can
// be compared.
type Way struct {
	Forwarding Forwarding
	// End is where the tunnel ends, Port and VNI are its own; all are zero for
	// L2.
	End  netip.Addr
	Port uint16
	VNI  uint32
}

// Way is how the service's packets get to one of its backends.
func (s *Service) Way(b Backend) Way {
	w := Way{Forwarding: s.Forwarding}
	if s.Forwarding.Tunnelled() {
		w.End, w.Port, w.VNI = b.SentTo(s.Forwarding).Unmap(), s.Tunnel.Port, s.Tunnel.VNI
	}
	return w
}
