package lab

import (
	"slices"
	"testing"
	"time"

	"l4lb/pkg/config"
)

func mustPlan(t *testing.T) *plan {
	t.Helper()
	p, err := newPlan(configText)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The story's numbers are those of lab.yaml.
func TestThePlanIsWhatTheStoryTellsOf(t *testing.T) {
	p := mustPlan(t)
	for group, want := range map[string]int{"web-a": 5, "web-b": 3, "web-spare": 1} {
		if got := p.members(group); len(got) != want {
			t.Errorf("group %s has %v, want %d", group, got, want)
		}
	}
	if got := p.cfg.Service(serviceName).Zonal.SpilloverRatio; got != 800_000 {
		t.Errorf("spillover ratio is %d parts per million, want 800000", got)
	}
	zones := map[string]string{groupA: "zone-a", groupB: "zone-b", groupOut: "", groupVPN: ""}
	for _, c := range p.withRole(roleClient) {
		if c.zone != zones[c.group] {
			t.Errorf("%s is in zone %q, want %q", c.name, c.zone, zones[c.group])
		}
		for _, ipv6 := range []bool{false, true} {
			addr := c.addr(ipv6)
			if got := p.cfg.Clients.Classify(addr).Zone; got != c.zone {
				t.Errorf("%s: the configuration has %s in zone %q, want %q", c.name, addr, got, c.zone)
			}
		}
	}
	if n := len(sources(p)); n != 12 {
		t.Errorf("%d sources, want every client over both families", n)
	}
}

func TestTheConfigurationHasNoWarnings(t *testing.T) {
	doc, err := config.Parse("lab.yaml", configText)
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Warnings) > 0 {
		t.Errorf("warnings: %v", doc.Warnings)
	}
}

// A bridge port is named after its host, and an interface name has at most 15
// characters.
func TestNamesFitInterfaces(t *testing.T) {
	p := mustPlan(t)
	seen := map[string]bool{routerName: true}
	for _, h := range p.hosts {
		name := h.name
		if len(h.nics) > 1 {
			name += "-0"
		}
		if len(name) > 15 {
			t.Errorf("%s is too long for an interface name", name)
		}
		if seen[h.name] {
			t.Errorf("%s is there twice", h.name)
		}
		seen[h.name] = true
		for _, n := range h.nics {
			if p.segment(n.segment) == nil {
				t.Errorf("%s is in segment %s, which is not there", h.name, n.segment)
			}
		}
	}
}

// Every variant of a load test must be valid, and differ from the one before.
func TestEveryReloadChangesSomething(t *testing.T) {
	const reloads = 50
	previous, out := string(configText), 0
	for i := range reloads {
		v := schedule(i, reloads)
		text, err := v.text()
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == previous {
			t.Errorf("reload %d, %s, changes nothing", i, v.what)
		}
		previous = string(text)
		doc, err := config.Parse("variant.yaml", text)
		if err != nil {
			t.Fatalf("reload %d, %s: %v", i, v.what, err)
		}
		gone := true
		for _, b := range doc.Config.Backends(doc.Config.Service(serviceName)) {
			gone = gone && b.Instance != leaver
		}
		if gone {
			out++
		}
	}
	if previous != string(configText) {
		t.Error("the last reload is not the configuration as committed")
	}
	if want := reloads/2 - 1; out != want {
		t.Errorf("%s is out for %d reloads, want %d", leaver, out, want)
	}
}

func TestAVariantThatFitsNothingIsAnError(t *testing.T) {
	if _, err := (variant{what: "x", edits: [][2]string{{"no such text", ""}}}).text(); err == nil {
		t.Error("an edit of nothing was accepted")
	}
}

// A load test is worth something only if backends are sick at times and well at
// others, some and all at once.
func TestFlappingReachesEverybody(t *testing.T) {
	const backends = 9
	var counts []int
	for at := time.Duration(0); at < doomCycle; at += flapControl {
		n := 0
		for i := range backends {
			if sickAt(i, at) {
				n++
			}
		}
		counts = append(counts, n)
	}
	if !slices.Contains(counts, backends) {
		t.Error("backends are never all sick")
	}
	if low := slices.Min(counts); low > backends/2 {
		t.Errorf("never fewer than %d of %d are sick", low, backends)
	}
}
