package netns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Where new connections of each kind of client go under zonal affinity
// (semantics.md 3): to their zone, or, without a zone that counts, everywhere.
func TestNewFlowsObeyZonalAffinity(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.service = zonalSpill
		g := startGateway(n, s)
		wantAnswers(t, n, f, inZoneA, "a1 a2")
		wantAnswers(t, n, f, inZoneB, "b1 b2")
		wantAnswers(t, n, f, inNoZone, "a1 a2 b1 b2")
		wantAnswers(t, n, f, onVPN, "a1 a2 b1 b2")

		// One of the zone is enough at ratio 0; with none left it spills.
		n.backends["a1"].setSick(true)
		g.awaitState("UNHEALTHY", "a1")
		wantAnswers(t, n, f, inZoneA, "a2")
		n.backends["a2"].setSick(true)
		g.awaitState("UNHEALTHY", "a2")
		wantAnswers(t, n, f, inZoneA, "b1 b2")

		// Without affinity the zone says nothing, and nobody is moved by it.
		x := n.startExchange(f, inZoneB)
		answering := x.next(t)
		n.backends["a1"].setSick(false)
		n.backends["a2"].setSick(false)
		g.reload(fourBackends())
		g.settled()
		wantAnswers(t, n, f, inZoneB, "a1 a2 b1 b2")
		x.finish(t, answering)
	})
}

// wantAnswers opens connections from a place until all of the backends have
// answered, and enough more to notice another one.
func wantAnswers(t *testing.T, n *network, f family, from place, want string) {
	t.Helper()
	got := map[string]int{}
	for len(got) < len(strings.Fields(want)) || count(got) < 32 {
		maps.Copy(got, sum(got, n.spread(f, from, 16)))
		if count(got) > 400 {
			break
		}
	}
	if names := strings.Join(slices.Sorted(maps.Keys(got)), " "); names != want {
		t.Errorf("clients in %s are served by %v, want %s", from.name, got, want)
	}
}

func count(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

func sum(a, b map[string]int) map[string]int {
	out := maps.Clone(b)
	for name, k := range a {
		out[name] += k
	}
	return out
}

// Clients of another region reach only rules that say so (semantics.md 6).
func TestOtherRegionNeedsGlobalAccess(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		x := n.startExchange(f, otherRegion)
		eventually(t, 5*time.Second, func() error {
			if n := g.metric(`l4lb_datapath_packets_total{reason="OTHER_REGION",verdict="drop"}`); n < 3 {
				return fmt.Errorf("%v packets counted as dropped", n)
			}
			return nil
		})
		if got := x.got(); len(got) > 0 {
			t.Errorf("%s answered a client of another region", got[0].name)
		}
		s := fourBackends()
		s.rule = ", allowGlobalAccess: true"
		s.service = zonalSpill
		g.reload(s)
		x.next(t)
		x.stop()
		wantAnswers(t, n, f, otherRegion, "a1 a2 b1 b2")
	})
}
