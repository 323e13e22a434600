// Package selector decides which backends may receive new connections and
// fills the tables that choose among them. Everything in it is a pure function
// of its arguments: no clock, no randomness, no state, and integer arithmetic
// throughout, so that every gateway reaches the same bytes.
package selector

import (
	"cmp"
	"net/netip"
	"slices"

	"l4lb/pkg/lb"
)

// Member is one backend of a service with what is known about it now.
type Member struct {
	Instance string // the identity that is hashed (semantics.md 1.5)
	Addr     netip.Addr
	Zone     string
	Failover bool
	State    lb.HealthState
	Weight   lb.Weight // used only where Policy.Weighted
	// Unreachable marks a member to which no packet can be sent because its
	// link address is not known. It counts as UNHEALTHY, and Plan leaves it
	// out of what tables are filled from, even in last resort.
	Unreachable bool
}

// Policy is what a service's configuration says about selection.
type Policy struct {
	// Failover is nil for a service without a failoverPolicy. It then has the
	// default policy (ratio 0) if any member is a failover backend, and none
	// otherwise.
	Failover *lb.FailoverPolicy
	Zonal    lb.ZonalAffinity
	Weighted bool // localityLbPolicy uses weights (semantics.md 1.9)
}

// Kind says which backends the original eligible set holds.
type Kind string

const (
	HealthyPrimaries   Kind = "HEALTHY_PRIMARIES"
	HealthyFailovers   Kind = "HEALTHY_FAILOVERS"
	UnhealthyPrimaries Kind = "UNHEALTHY_PRIMARIES" // last resort
	Drop               Kind = "DROP"
)

// Reason says how the modified eligible set came about.
type Reason string

const (
	// Dropped: no eligible backend, by dropTrafficIfUnhealthy or because there
	// is no backend at all.
	Dropped Reason = "DROPPED"
	// AffinityDisabled: the service has no zonal affinity.
	AffinityDisabled Reason = "ZONAL_AFFINITY_DISABLED"
	// ClientNotCompatible: VPN, another region, or a zone that is not known.
	ClientNotCompatible Reason = "CLIENT_NOT_COMPATIBLE"
	// NoZonalMatch: the client's zone holds none of the configured backends.
	NoZonalMatch Reason = "NO_ZONAL_MATCH"
	// StayedInZone: the result is the non-empty intersection.
	StayedInZone Reason = "STAYED_IN_ZONE"
	// StayedInZoneUnhealthy: STAY_WITHIN_ZONE without an eligible backend in
	// the zone returns the zonal matched set, all of it unhealthy.
	StayedInZoneUnhealthy Reason = "STAYED_IN_ZONE_UNHEALTHY"
	// Spilled: the ratio, or ratio 0 with an empty intersection, returns the
	// original set.
	Spilled Reason = "SPILLED"
)

// canonicalOrder returns the indexes of members ordered by what they are, not
// by where they stand, so that the order of input never matters.
func canonicalOrder(members []Member) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &members[a], &members[b]
		return cmp.Or(
			cmp.Compare(x.Instance, y.Instance),
			x.Addr.Compare(y.Addr),
			cmp.Compare(x.Zone, y.Zone),
			cmp.Compare(x.State, y.State),
			cmp.Compare(x.Weight.PPM, y.Weight.PPM),
		)
	})
	return order
}

// healthy reports for each member whether it counts as healthy. UNKNOWN does
// not, except while every member that is not leaving is UNKNOWN: then no check
// has spoken yet and all count as healthy. A member without a link address
// never does.
func healthy(members []Member) []bool {
	unknown := true
	for i := range members {
		if s := members[i].State; s != lb.Draining && s != lb.Unknown {
			unknown = false
			break
		}
	}
	out := make([]bool, len(members))
	for i := range members {
		m := &members[i]
		ok := m.State == lb.Healthy || unknown && m.State == lb.Unknown
		out[i] = ok && !m.Unreachable
	}
	return out
}
