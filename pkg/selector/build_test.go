package selector

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"l4lb/pkg/lb"
)

// members builds from the notation of semantics.md 3.5.2, comma separated:
// "5P@a/ok" is five healthy primaries in zone a. States are ok, bad, new
// (UNKNOWN), leaving (DRAINING) and lost (HEALTHY but unreachable). Instances
// are named like "p-a-ok-0".
func members(tb testing.TB, spec string) []Member {
	tb.Helper()
	states := map[string]lb.HealthState{
		"ok": lb.Healthy, "bad": lb.Unhealthy, "new": lb.Unknown, "leaving": lb.Draining, "lost": lb.Healthy,
	}
	var out []Member
	for group := range strings.FieldsFuncSeq(spec, func(r rune) bool { return r == ',' || r == ' ' }) {
		var n int
		var kind rune
		var rest string
		if _, err := fmt.Sscanf(group, "%d%c@%s", &n, &kind, &rest); err != nil {
			tb.Fatalf("bad member group %q: %v", group, err)
		}
		zone, state, _ := strings.Cut(rest, "/")
		if _, ok := states[state]; !ok {
			tb.Fatalf("bad state in %q", group)
		}
		for k := range n {
			out = append(out, Member{
				Instance:    fmt.Sprintf("%s-%s-%s-%d", strings.ToLower(string(kind)), zone, state, k),
				Addr:        netip.AddrFrom4([4]byte{192, 0, 2, byte(len(out))}),
				Zone:        zone,
				Failover:    kind == 'F',
				State:       states[state],
				Unreachable: state == "lost",
			})
		}
	}
	return out
}

// inZone is a compatible client; "" is a client of no zone.
func inZone(zone string) lb.Client {
	if zone == "" {
		return lb.Client{}
	}
	return lb.Client{Class: lb.ClientZonal, Zone: zone}
}

// groups counts names by what precedes their number: "3 p-b-ok, 1 f-a-ok".
func groups(names []string) string {
	var order []string
	count := map[string]int{}
	for _, name := range names {
		group := name[:strings.LastIndexByte(name, '-')]
		if count[group]++; count[group] == 1 {
			order = append(order, group)
		}
	}
	for k, group := range order {
		order[k] = fmt.Sprintf("%d %s", count[group], group)
	}
	return strings.Join(order, ", ")
}
