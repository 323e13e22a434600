package lb

import "net/netip"

// ClientClass says what zonal affinity and the region rule make of a client.
type ClientClass uint8

const (
	// ClientNoZone is in no known zone: not compatible (semantics.md 3.6).
	ClientNoZone ClientClass = iota
	// ClientZonal is in a known zone and compatible.
	ClientZonal
	// ClientIncompatible arrives over VPN or interconnect.
	ClientIncompatible
	// ClientOtherRegion needs a rule with allowGlobalAccess.
	ClientOtherRegion
)

// Client is what the configuration knows about a client address.
type Client struct {
	Class ClientClass
	// Zone is the zone of the longest matching client range, "" for none. It
	// counts only where Class is ClientZonal.
	Zone string
}

// Compatible reports whether zonal affinity can apply.
func (c Client) Compatible() bool { return c.Class == ClientZonal }

// Classify finds a client. Its zone is that of the longest matching prefix; a
// range that is incompatible or of another region makes it never zonal, however
// short the range is.
func (m *ClientMap) Classify(addr netip.Addr) Client {
	addr = addr.Unmap()
	best, client := -1, Client{}
	for _, z := range m.Zones {
		for _, p := range z.ClientRanges {
			if p.Contains(addr) && p.Bits() > best {
				best, client = p.Bits(), Client{Class: ClientZonal, Zone: z.Name}
			}
		}
	}
	switch {
	case containsAddr(m.OtherRegion, addr):
		client.Class = ClientOtherRegion
	case containsAddr(m.Incompatible, addr):
		client.Class = ClientIncompatible
	}
	return client
}

func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
