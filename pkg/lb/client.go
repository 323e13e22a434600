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
	Zone  string // only for ClientZonal
}

// Compatible reports whether zonal affinity can apply.
func (c Client) Compatible() bool { return c.Class == ClientZonal }

// Classify finds a client by the longest matching prefix over zones,
// incompatible ranges and other-region ranges alike.
func (m *ClientMap) Classify(addr netip.Addr) Client {
	addr = addr.Unmap()
	best, client := -1, Client{}
	consider := func(p netip.Prefix, c Client) {
		if p.Contains(addr) && p.Bits() > best {
			best, client = p.Bits(), c
		}
	}
	for _, z := range m.Zones {
		for _, p := range z.ClientRanges {
			consider(p, Client{Class: ClientZonal, Zone: z.Name})
		}
	}
	for _, p := range m.Incompatible {
		consider(p, Client{Class: ClientIncompatible})
	}
	for _, p := range m.OtherRegion {
		consider(p, Client{Class: ClientOtherRegion})
	}
	return client
}
