package controller

import (
	"fmt"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// checkCapacity refuses what does not fit, before anything is touched. Ids that
// are still in use by what is leaving count too.
func (e *Engine) checkCapacity(cfg *lb.Config, x *configIndex) error {
	perService := map[string]uint32{}
	for i := range cfg.Rules {
		perService[cfg.Rules[i].Service]++
	}
	for name, n := range perService {
		if n > e.dp.StatSlots() {
			return fmt.Errorf("backend service %q has %d forwarding rules, the running data plane holds %d: %w",
				name, n, e.dp.StatSlots(), loader.ErrFull)
		}
	}
	var members, services, rules, tables uint32
	for i := range cfg.Services {
		s := &cfg.Services[i]
		units := map[unitKey]map[string]bool{}
		for _, b := range x.backends(s) {
			key := unitKey{s.Name, b.Addr.Is6()}
			if units[key] == nil {
				units[key] = map[string]bool{}
			}
			units[key][b.Zone] = true
			members += e.memberIDs.lacks(memberKey{b.Instance, b.Addr}.name(s.Name))
		}
		for key, zones := range units {
			services += e.serviceIDs.lacks(key.name())
			tables++
			if zonal(s) {
				tables += uint32(len(zones))
			}
		}
		if len(units) == 0 {
			services += e.serviceIDs.lacks(unitKey{service: s.Name}.name())
		}
	}
	for i := range cfg.Rules {
		rules += e.ruleIDs.lacks(cfg.Rules[i].Name)
	}
	for _, name := range cfg.NextHops() {
		rules += e.ruleIDs.lacks(routedName(name))
	}
	for _, c := range []struct {
		what     string
		n        uint32
		capacity uint32
	}{
		{"backends", e.memberIDs.inUse() + members, e.dp.MemberCapacity()},
		{"forwarding rules", e.ruleIDs.inUse() + rules, e.dp.RuleCapacity()},
		{"backend services", e.serviceIDs.inUse() + services, e.dp.ServiceCapacity()},
		{"zones", uint32(len(zoneNames(cfg))), loader.ZoneMax},
		// While tables and ranges are replaced, the old ones are there too.
		{"selection tables", 2 * tables, e.dp.TableCapacity()},
		{"allowed source ranges", e.countRanges() + countRanges(cfg), e.dp.RangeCapacity()},
	} {
		if c.n >= c.capacity {
			return fmt.Errorf("%d %s, with those that are leaving, do not fit the running data plane, which holds %d: %w",
				c.n, c.what, c.capacity-1, loader.ErrFull)
		}
	}
	return nil
}

// zonal reports whether clients of different zones may have different sets.
func zonal(s *lb.Service) bool {
	return s.Zonal.Spillover != "" && s.Zonal.Spillover != lb.ZonalDisabled
}
