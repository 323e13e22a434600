package daemon

import (
	"math/bits"
	"slices"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// Capacities at least; they are what the loader would choose.
const (
	leastMembers   = 1 << 14
	leastRules     = 1 << 12
	leastServices  = 1 << 10
	leastFrontends = 1 << 12
	leastZoneNodes = 1 << 10
	leastStatSlots = 8
	leastRanges    = 1 << 16
)

// sizes are the data plane's capacities: twice what the configuration needs, so
// that it can grow by reloads, as powers of two and at least the defaults. State
// that is pinned under pinDir keeps its sizes as long as the configuration fits,
// so that a restart adopts it.
func sizes(cfg *lb.Config, pinDir string) loader.Options {
	need := needs(cfg)
	o := loader.Options{
		PinDir: pinDir, FlowEntries: cfg.Gateway.FlowTable.Entries, SelectSeed: cfg.Gateway.HashSeed,
		Members:   max(leastMembers, roomy(need.Members)),
		Rules:     max(leastRules, roomy(need.Rules)),
		Services:  max(leastServices, roomy(need.Services)),
		Frontends: max(leastFrontends, roomy(need.Frontends)),
		ZoneNodes: max(leastZoneNodes, roomy(need.ZoneNodes)),
		StatSlots: max(leastStatSlots, powerOfTwo(need.StatSlots)),
		Ranges:    max(leastRanges, roomy(2*need.Ranges)),
	}
	if p, ok := loader.PinnedSizes(pinDir); ok && fits(need, p) {
		o.Members, o.Rules, o.Services, o.StatSlots = p.Members, p.Rules, p.Services, p.StatSlots
	}
	return o
}

// needs counts what the configuration uses.
func needs(cfg *lb.Config) loader.Options {
	nextHops := cfg.NextHops() // which have a second record
	n := loader.Options{Rules: uint32(len(cfg.Rules) + len(nextHops)), Services: 2 * uint32(len(cfg.Services))}
	for i := range cfg.Services {
		n.Members += uint32(len(cfg.Backends(&cfg.Services[i])))
	}
	perService := map[string]uint32{}
	for _, r := range cfg.Rules {
		perService[r.Service]++
		n.StatSlots = max(n.StatSlots, perService[r.Service])
		n.Frontends += 1 + uint32(len(r.Ports))/4
		n.Ranges += uint32(len(r.Admission.AllowedSources))
		if slices.Contains(nextHops, r.Name) {
			n.Ranges += uint32(len(r.Admission.AllowedSources))
		}
	}
	// A prefix makes at most one node for each byte of it.
	n.ZoneNodes = 2
	count := func(bits int) { n.ZoneNodes += uint32(bits+7) / 8 }
	for _, z := range cfg.Clients.Zones {
		for _, p := range z.ClientRanges {
			count(p.Bits())
		}
	}
	for _, p := range cfg.Clients.Incompatible {
		count(p.Bits())
	}
	for _, p := range cfg.Clients.OtherRegion {
		count(p.Bits())
	}
	return n
}

// fits reports whether what is needed has room in pinned maps: ids start at 1.
func fits(need, have loader.Options) bool {
	return need.Members < have.Members && need.Rules < have.Rules &&
		need.Services < have.Services && need.StatSlots <= have.StatSlots
}

func roomy(n uint32) uint32 { return powerOfTwo(2 * n) }

// powerOfTwo rounds up.
func powerOfTwo(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}

// firstChecks is how long a start waits for health checks before it forwards by
// what it knows: the time over which first probes are spread, plus the longest
// timeout, plus what neighbours need; 3.25 s at most. Backends that answer later
// join with their first pass.
func firstChecks(cfg *lb.Config) time.Duration {
	const longest, spread, neighbours = 2 * time.Second, time.Second, 250 * time.Millisecond
	var timeout time.Duration
	probes := 0
	for i := range cfg.Services {
		s := &cfg.Services[i]
		if check := cfg.HealthCheck(s.HealthCheck); check != nil {
			timeout = max(timeout, check.Timeout)
			probes += len(cfg.Backends(s))
		}
	}
	window := min(spread, max(100*time.Millisecond, time.Duration(probes)*time.Millisecond))
	return min(timeout, longest) + window + neighbours
}
