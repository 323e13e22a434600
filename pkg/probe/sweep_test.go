package probe

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"l4lb/internal/netlab"
)

// state lists links, rules and routes of the gateway.
func (l *lab) state(t testing.TB) string {
	t.Helper()
	return stateOf(t, l.gw)
}

func stateOf(t testing.TB, ns *netlab.Namespace) string {
	t.Helper()
	nl := ns.Netlink()
	var lines []string
	links, err := dump(nl.LinkList)
	must(t, err)
	for _, link := range links {
		lines = append(lines, "link "+link.Attrs().Name)
	}
	for _, family := range families() {
		rules, err := dump(func() ([]netlink.Rule, error) { return nl.RuleList(family) })
		must(t, err)
		for _, r := range rules {
			lines = append(lines, fmt.Sprintf("rule %d %d mark %x table %d src %v dst %v", family, r.Priority, r.Mark, r.Table, r.Src, r.Dst))
		}
		for slot := range slots {
			for _, table := range []int{tableBase + slot, reverseBase + slot} {
				routes, err := listRoutes(nl, family, table)
				must(t, err)
				for _, r := range routes {
					lines = append(lines, fmt.Sprintf("route %d %d: %v", family, table, r))
				}
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// bare is the state without anything of ours.
func (l *lab) bare(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, line := range strings.Split(l.state(t), "\n") {
		if !strings.Contains(line, "l4lb-") && !strings.Contains(line, "table 76") && !strings.HasPrefix(line, "route") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestNothingIsLeft(t *testing.T) {
	l := newLab(t, 1)
	before := l.state(t)
	out := l.open(t, "gw-1")
	if l.state(t) == before {
		t.Fatal("the set-up cannot be seen")
	}
	must(t, out.Close())
	if now := l.state(t); now != before {
		t.Errorf("left behind:\n%s\nbefore:\n%s", now, before)
	}
	must(t, out.Close())
}

// TestCrashIsSwept starts a gateway again that was killed, beside another one.
func TestCrashIsSwept(t *testing.T) {
	l := newLab(t, 1)
	before := l.state(t)
	crashed := l.open(t, "gw-1")
	other := l.open(t, "gw-2")
	if crashed.device.slot == other.device.slot {
		t.Fatal("two gateways share a slot")
	}
	both := l.state(t)
	again := l.open(t, "gw-1")
	if now := normalize(l.state(t)); now != normalize(both) {
		t.Errorf("after the restart:\n%s\nwant:\n%s", now, both)
	}
	for _, out := range []*Output{again, other} {
		if got := l.probe(t, out, 0, false, "backend0"); !got.OK() {
			t.Errorf("slot %d: got %s (%s)", out.device.slot, got.Detail, got.Text)
		}
	}
	must(t, again.Close())
	must(t, other.Close())
	if now := l.state(t); now != before {
		t.Errorf("left behind:\n%s", now)
	}
}

// TestRulesWithoutADeviceAreSwept finds what is left when the device of a
// killed gateway was deleted by hand.
func TestRulesWithoutADeviceAreSwept(t *testing.T) {
	l := newLab(t, 1)
	before := l.state(t)
	crashed := l.open(t, "gw-1")
	must(t, l.gw.DelLink(crashed.device.name))
	out := l.open(t, "gw-9")
	must(t, out.Close())
	if now := l.state(t); now != before {
		t.Errorf("left behind:\n%s", now)
	}
}

// TestWhatIsRemovedComesBack takes parts away from a running gateway.
func TestWhatIsRemovedComesBack(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- out.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	whole := l.state(t)
	nl := l.gw.Netlink()
	removals := map[string]func() error{
		"IPv4 rule": func() error { return nl.RuleDel(out.device.rule(netlink.FAMILY_V4)) },
		"IPv6 rule": func() error { return nl.RuleDel(out.device.rule(netlink.FAMILY_V6)) },
		"device":    func() error { return l.gw.DelLink(out.device.name) },
		"link up":   func() error { return l.gw.LinkDown(out.device.name) },
	}
	for what, remove := range removals {
		must(t, remove())
		within(t, 5*time.Second, what+" is back", func() bool {
			return normalize(l.state(t)) == normalize(whole)
		})
		within(t, 5*time.Second, "probes pass after "+what, func() bool {
			return l.probe(t, out, 0, false, "backend0").OK() && l.probe(t, out, 0, true, "backend0").OK()
		})
	}
}

// What was removed while nobody watched comes back when somebody begins to.
func TestWhatWasRemovedBeforeComesBack(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	whole := l.state(t)
	must(t, l.gw.Netlink().RuleDel(out.device.rule(netlink.FAMILY_V4)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- out.Run(ctx) }()
	within(t, 5*time.Second, "the rule is back", func() bool { return normalize(l.state(t)) == normalize(whole) })
	cancel()
	must(t, <-done)
}

// normalize leaves out the number of the device, which changes.
func normalize(state string) string {
	var lines []string
	for _, line := range strings.Split(state, "\n") {
		line, _, _ = strings.Cut(line, ": {")
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestMissingDeviceProhibits has probes of a gateway whose device is gone fail
// as its own error, instead of going to the VIP like a client's packets.
func TestMissingDeviceProhibits(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	must(t, l.gw.DelLink(out.device.name))
	for _, ipv6 := range []bool{false, true} {
		if got := l.probe(t, out, 0, ipv6, ""); !got.Inconclusive() {
			t.Errorf("IPv6 %v: got %s (%s), want LOCAL_ERROR", ipv6, got.Detail, got.Text)
		}
	}
}
