package lb

import "net/netip"

// Forwarding says how packets reach a backend.
type Forwarding string

const (
	ForwardL2     Forwarding = "L2"
	ForwardIPIP   Forwarding = "IPIP"
	ForwardGUE    Forwarding = "GUE"
	ForwardGENEVE Forwarding = "GENEVE"
)

// Tunnelled reports whether packets are put into others on their way.
func (f Forwarding) Tunnelled() bool {
	return f == ForwardIPIP || f == ForwardGUE || f == ForwardGENEVE
}

// TunnelOptions are a service's, where its forwarding is a tunnel.
type TunnelOptions struct {
	Port uint16 // UDP destination of GUE and GENEVE
	VNI  uint32 // of GENEVE
	// ClampMSS brings the segment size that TCP handshakes tell down to what
	// fits.
	ClampMSS bool
}

// SentTo is the address that packets are sent to on their way to the backend.
func (b Backend) SentTo(f Forwarding) netip.Addr {
	if f.Tunnelled() && b.TunnelAddr.IsValid() {
		return b.TunnelAddr
	}
	return b.Addr
}
