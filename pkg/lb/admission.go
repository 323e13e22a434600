package lb

import "net/netip"

// Admission is the part of a forwarding rule's `l4lb:` block that says which new
// flows it takes. The zero value takes all.
type Admission struct {
	// AllowedSources are the networks that clients may be in; none allows
	// every client. All are of the rule's family.
	AllowedSources []netip.Prefix
	// Flows limits the new flows of the rule, SourceFlows those of each of its
	// sources: the clients that agree in the first SourcePrefix bits.
	Flows, SourceFlows FlowRate
	SourcePrefix       int // 0 without SourceFlows
}

// FlowRate is so many new flows a second in the long run, and up to Burst of
// them at once. The zero value is no limit.
type FlowRate struct{ PerSecond, Burst uint32 }

// Limited reports whether there is a limit.
func (r FlowRate) Limited() bool { return r.PerSecond > 0 }

// Asks reports whether anything is asked of new flows.
func (a *Admission) Asks() bool {
	return len(a.AllowedSources) > 0 || a.Flows.Limited() || a.SourceFlows.Limited()
}

// Allows reports whether clients of an address are let in at all.
func (a *Admission) Allows(client netip.Addr) bool {
	for _, p := range a.AllowedSources {
		if p.Contains(client) {
			return true
		}
	}
	return len(a.AllowedSources) == 0
}
