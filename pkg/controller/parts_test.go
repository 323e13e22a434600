package controller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/announce"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/neigh"
)

// fakeHealth knows what a test tells it.
type fakeHealth struct {
	status map[healthcheck.Target]healthcheck.Status
	events chan healthcheck.Event
}

func (h *fakeHealth) SetTargets(list []healthcheck.Target, initial func(healthcheck.Target) lb.HealthState) error {
	old := h.status
	h.status = map[healthcheck.Target]healthcheck.Status{}
	for _, t := range list {
		s, ok := old[t.Key()]
		if !ok {
			s = healthcheck.Status{Target: t.Key(), State: initial(t), Weight: lb.Weight{Err: lb.WeightNone}}
		}
		h.status[t.Key()] = s
	}
	return nil
}

func (h *fakeHealth) Status(t healthcheck.Target) (healthcheck.Status, bool) {
	s, ok := h.status[t.Key()]
	return s, ok
}

func (h *fakeHealth) Events() <-chan healthcheck.Event { return h.events }

// fakeNeighbours resolves nothing until told to.
type fakeNeighbours struct {
	targets []netip.Addr
	entries map[netip.Addr]neigh.Entry
	changes chan struct{}
}

func (n *fakeNeighbours) SetTargets(addrs []netip.Addr) { n.targets = addrs }
func (n *fakeNeighbours) Changes() <-chan struct{}      { return n.changes }
func (n *fakeNeighbours) Snapshot() map[netip.Addr]neigh.Entry {
	out := map[netip.Addr]neigh.Entry{}
	for _, a := range n.targets {
		e, ok := n.entries[a]
		if !ok {
			e = neigh.Entry{Addr: a, State: neigh.Pending}
		}
		out[a] = e
	}
	return out
}

type fakeAnnouncer struct{ list []announce.Announcement }

func (a *fakeAnnouncer) Set(list []announce.Announcement) { a.list = list }

// parts is a controller on fakes. It runs in a bubble of its own time.
type parts struct {
	t        *testing.T
	dp       *fakeDP
	health   *fakeHealth
	neigh    *fakeNeighbours
	announce *fakeAnnouncer
	log      *bytes.Buffer
	c        *Controller
	start    time.Time
	attached []time.Duration // since start
	attach   error
	stop     context.CancelFunc
	done     chan struct{}
	err      error // of Run
}

// newParts prepares a controller over what is in dp.
func newParts(t *testing.T, dp *fakeDP, cfg *lb.Config, firstChecks time.Duration) *parts {
	p := &parts{
		t: t, dp: dp, start: time.Now(), log: &bytes.Buffer{}, done: make(chan struct{}),
		health:   &fakeHealth{events: make(chan healthcheck.Event)},
		neigh:    &fakeNeighbours{entries: map[netip.Addr]neigh.Entry{}, changes: make(chan struct{}, 1)},
		announce: &fakeAnnouncer{},
	}
	engine, err := NewEngine(dp)
	check(t, err)
	cfg.Gateway.Interfaces = []string{"eth0"}
	p.c, err = New(Options{
		Logger: slog.New(slog.NewTextHandler(p.log, nil)), Engine: engine, Health: p.health,
		Neighbours: p.neigh, Announcer: p.announce, FirstChecks: firstChecks,
		Attach: func() error {
			if len(dp.fronts) == 0 {
				t.Error("attached before the maps were written")
			}
			p.attached = append(p.attached, time.Since(p.start))
			return p.attach
		},
	}, cfg)
	check(t, err)
	return p
}

// run starts Run and stops it with the test.
func (p *parts) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.err = p.c.Run(ctx)
	}()
	p.t.Cleanup(func() {
		cancel()
		<-p.done
	})
	synctest.Wait()
}

// ended waits for Run to return.
func (p *parts) ended() error {
	<-p.done
	return p.err
}

// ready runs it until every backend is healthy and reachable.
func (p *parts) ready() *parts {
	p.t.Helper()
	p.run()
	p.resolve()
	p.events(lb.Healthy, "10.1.0.11", "10.1.0.12", "10.2.0.11", "10.2.0.12")
	p.chosen()
	if !p.c.Ready() {
		p.t.Fatal("not ready")
	}
	p.dp.writes = nil
	p.log.Reset()
	return p
}

// resolve makes all backends reachable.
func (p *parts) resolve() {
	for _, a := range p.neigh.targets {
		l := linkOf(a, true)
		p.neigh.entries[a] = neigh.Entry{
			Addr: a, State: neigh.Resolved, LinkIndex: 7, MAC: net.HardwareAddr(l.DMAC[:]), SrcMAC: net.HardwareAddr(l.SMAC[:]),
		}
	}
	p.neigh.changes <- struct{}{}
	synctest.Wait()
}

// events reports the health of addresses, one right after the other.
func (p *parts) events(state lb.HealthState, addrs ...string) {
	for _, a := range addrs {
		p.health.events <- p.event(state, a)
	}
}

func (p *parts) event(state lb.HealthState, a string) healthcheck.Event {
	p.t.Helper()
	for t, s := range p.health.status {
		if t.Addr == addr(a) {
			s.State = state
			p.health.status[t] = s
			return healthcheck.Event{Target: t, State: state, Result: healthcheck.Result{Weight: lb.Weight{Err: lb.WeightNone}}}
		}
	}
	p.t.Fatalf("%s is not probed", a)
	return healthcheck.Event{}
}

// chosen is who new connections of clients without a zone go to, when what came
// was gathered.
func (p *parts) chosen() string {
	time.Sleep(gatherPause)
	synctest.Wait()
	w := &world{t: p.t, dp: p.dp}
	return w.chosen("web", "")
}

func (p *parts) wantChosen(want string) {
	p.t.Helper()
	if got := p.chosen(); got != want {
		p.t.Errorf("new connections go to %q, want %q", got, want)
	}
}

// logged lists the log's lines without time and level.
func (p *parts) logged() []string {
	var out []string
	for line := range strings.Lines(p.log.String()) {
		_, msg, _ := strings.Cut(strings.TrimSpace(line), " msg=")
		out = append(out, msg)
	}
	slices.Sort(out)
	return out
}

func sortedKeys[V any](m map[netip.Addr]V) []netip.Addr {
	return slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
}

var errBroken = errors.New("broken")
