package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"l4lb/pkg/selector"
)

// step is one scene: something is done, and then this must hold.
type step struct {
	// name says what happens and what must come of it.
	name string
	do   func(ctx context.Context) error
	want map[string]expect // by client group
}

// story is the lab's script. The numbers of lab.yaml make it: five primaries in
// zone-a, three in zone-b, a spillover ratio of 0.8 and one failover backend.
func (l *Lab) story() []step {
	a, b, spare := l.plan.members("web-a"), l.plan.members("web-b"), l.plan.members("web-spare")
	primaries := slices.Concat(a, b)
	allWell := everyone(selector.HealthyPrimaries, zonal(a, "5/5"), zonal(b, "3/3"), primaries)
	return []step{{
		name: "all is well: each zone serves its own clients, everybody serves the rest",
		do:   l.holdConnections,
		want: allWell,
	}, {
		name: fmt.Sprintf("%s dies: 4 of 5 meet the ratio, zone-a still serves its own", a[0]),
		do:   func(context.Context) error { return l.setDown(true, a[0]) },
		want: everyone(selector.HealthyPrimaries, zonal(a[1:], "4/5"), zonal(b, "3/3"), primaries[1:]),
	}, {
		name: fmt.Sprintf("%s fails its health checks: 3 of 5 are too few, zone-a spills over", a[1]),
		do:   func(context.Context) error { return l.setSick(true, a[1]) },
		want: everyone(selector.HealthyPrimaries, spilled(primaries[2:], "3/5"), zonal(b, "3/3"), primaries[2:]),
	}, {
		name: "the daemon is killed: packets flow without it, the next one adopts them",
		do:   l.killDaemon,
		want: everyone(selector.HealthyPrimaries, spilled(primaries[2:], "3/5"), zonal(b, "3/3"), primaries[2:]),
	}, {
		name: "both recover: zone-a serves its own again",
		do: func(context.Context) error {
			return errors.Join(l.setDown(false, a[0]), l.setSick(false, a[1]))
		},
		want: allWell,
	}, {
		name: "all of zone-a dies: zone-b serves everybody",
		do:   func(context.Context) error { return l.setSick(true, a...) },
		want: everyone(selector.HealthyPrimaries, spilled(b, "0/5"), zonal(b, "3/3"), b),
	}, {
		name: "zone-b dies too: the failover backend serves everybody",
		do:   func(context.Context) error { return l.setSick(true, b...) },
		want: everyone(selector.HealthyFailovers,
			expect{reason: selector.NoZonalMatch, backends: spare}, zonal(spare, "1/1"), spare),
	}, {
		name: "all are dead: primaries are the last resort, each zone's for its own clients",
		do:   func(context.Context) error { return l.setSick(true, spare...) },
		want: everyone(selector.UnhealthyPrimaries, zonal(a, "5/5"), zonal(b, "3/3"), primaries),
	}, {
		name: "all recover: as in the beginning, and no connection was lost or moved",
		do: func(context.Context) error {
			return l.setSick(false, slices.Concat(primaries, spare)...)
		},
		want: allWell,
	}}
}

// everyone puts the client groups' expectations together. Clients without a
// zone and those behind the VPN have the same.
func everyone(kind selector.Kind, a, b expect, rest []string) map[string]expect {
	other := expect{reason: selector.ClientNotCompatible, backends: rest}
	a.kind, b.kind, other.kind = kind, kind, kind
	return map[string]expect{groupA: a, groupB: b, groupOut: other, groupVPN: other}
}

func zonal(backends []string, ratio string) expect {
	return expect{reason: selector.StayedInZone, ratio: ratio, backends: backends}
}

func spilled(backends []string, ratio string) expect {
	return expect{reason: selector.Spilled, ratio: ratio, backends: backends}
}

func (l *Lab) setSick(sick bool, names ...string) error {
	for _, name := range names {
		l.backends[name].SetSick(sick)
	}
	return nil
}

func (l *Lab) setDown(down bool, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, l.backends[name].SetDown(down))
	}
	return errors.Join(errs...)
}

// down are the backends whose listeners are closed.
func (l *Lab) down() map[string]bool {
	out := map[string]bool{}
	for name, b := range l.backends {
		if _, down := b.state(); down {
			out[name] = true
		}
	}
	return out
}
