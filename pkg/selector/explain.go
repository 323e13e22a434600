package selector

import (
	"fmt"

	"l4lb/pkg/lb"
)

// Explanation says which sets a client's new connections go through and why.
// Its JSON is a contract: fields are only ever added. Lists hold instance
// names in order and are never null.
type Explanation struct {
	Service          string   `json:"service"`
	Client           string   `json:"client"`
	ClientZone       string   `json:"clientZone"` // "" unknown
	ClientCompatible bool     `json:"clientCompatible"`
	OriginalEligible Eligible `json:"originalEligible"`
	ZonalTest        []string `json:"zonalTest"`
	ZonalMatched     []string `json:"zonalMatched"`
	Intersection     []string `json:"intersection"`
	Ratio            string   `json:"ratio"` // "3/5", unreduced; "" without a zonal match
	ZonalMatch       bool     `json:"zonalMatch"`
	ModifiedEligible []string `json:"modifiedEligible"`
	Reason           Reason   `json:"reason"`
}

// Eligible is the original eligible set and its kind.
type Eligible struct {
	Kind     Kind     `json:"kind"`
	Backends []string `json:"backends"`
}

// Explain runs selection for one client and keeps every set on the way. The
// caller fills in Service and Client. A member that is unreachable shows as
// unhealthy: it is in the sets, in last resort also in ModifiedEligible, though
// Plan sends it nothing.
func Explain(members []Member, p Policy, client lb.Client) Explanation {
	v := newView(members, p)
	e := Explanation{
		ClientZone:       client.Zone,
		ClientCompatible: client.Compatible(),
		OriginalEligible: Eligible{Kind: v.kind, Backends: v.names(v.original)},
		ZonalTest:        []string{},
		ZonalMatched:     []string{},
		Intersection:     []string{},
	}
	reason, reached := v.reached(client.Compatible())
	if !reached {
		e.Reason = reason
		e.ModifiedEligible = v.names(v.original)
		return e
	}
	r := v.zonal(filter(v.test, func(i int) bool { return members[i].Zone == client.Zone }))
	e.ZonalTest = v.names(v.test)
	e.ZonalMatched = v.names(r.matched)
	e.Intersection = v.names(r.intersection)
	e.ZonalMatch = r.match()
	if r.match() {
		e.Ratio = fmt.Sprintf("%d/%d", len(r.intersection), len(r.matched))
	}
	e.ModifiedEligible = v.names(r.modified)
	e.Reason = r.reason
	return e
}

// names keeps canonical order, which is by instance name first.
func (v *view) names(set []int) []string {
	out := make([]string, len(set))
	for k, i := range set {
		out[k] = v.members[i].Instance
	}
	return out
}
