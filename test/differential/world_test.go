package differential

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/model"
)

// epoch is when sequences start; the program's clock counts from an hour before.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is the model and the program in the same state.
type world struct {
	now   time.Time
	model *model.Model

	d      *loader.Datapath
	e      *controller.Engine
	next   time.Time // when the engine wants to be woken
	clock  time.Time // as the program has it
	config *lb.Config
	longer time.Duration // idle timeouts, by the events of this step
	links  map[netip.Addr]controller.Link
	names  names
	buf    []byte
}

// names says what the program's ids stand for.
type names struct {
	rules, zones map[uint32]string
	routed       map[uint32]bool // uses of rules as next hops
	members      map[uint32]backendName
}

type backendName struct {
	service, instance string
	addr              netip.Addr
}

func newWorld(flowSeed uint64) (*world, error) {
	d, err := loader.Load(loader.Options{
		FlowEntries: 1 << 13, FlowSeed: flowSeed, Members: 256, Rules: 64, Services: 32, Frontends: 64, ZoneNodes: 256, StatSlots: 16, Sources: 8192,
		SelectSeed: hashSeed, EchoPerSecond: 1e9, Virtual: true,
	})
	if err != nil {
		return nil, err
	}
	if err := d.SetPort(loader.TestIfIndex, gatewayMAC); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	e, err := controller.NewEngine(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	e.SetHost(controller.Host{Addresses: subnets, Interfaces: map[string]uint32{here: loader.TestIfIndex, elsewhere: 7}})
	m := model.New()
	m.SetHost(subnets)
	return &world{now: epoch, config: &lb.Config{}, model: m, d: d, e: e, links: map[netip.Addr]controller.Link{}}, nil
}

// pass lets time pass for both. The engine is woken when it asked for it.
func (w *world) pass(wait time.Duration) error {
	w.now = w.now.Add(wait)
	for !w.next.IsZero() && !w.next.After(w.now) {
		if err := w.reconcile(); err != nil {
			return err
		}
	}
	if w.clock.Equal(w.now) {
		return nil
	}
	w.clock = w.now
	return w.d.SetClock(w.now.Sub(epoch) + time.Hour)
}

// reconcile is at w.now, which may be later than the engine asked for: a drain
// that ended in between has no packets that could tell.
func (w *world) reconcile() (err error) {
	w.next, err = w.e.Reconcile(w.now)
	w.names = namesOf(w.e.Snapshot())
	return err
}

func namesOf(s *controller.Snapshot) names {
	n := names{map[uint32]string{0: ""}, map[uint32]string{0: ""}, map[uint32]bool{}, map[uint32]backendName{0: {}}}
	for _, r := range s.Rules {
		n.rules[r.ID] = r.Rule.Name
		if r.RoutedID != 0 {
			n.rules[r.RoutedID], n.routed[r.RoutedID] = r.Rule.Name, true
		}
	}
	for _, z := range s.Zones {
		n.zones[z.ID] = z.Name
	}
	for _, service := range s.Services {
		for _, b := range service.Members {
			n.members[b.ID] = backendName{service.Name, b.Backend.Instance, b.Backend.Addr}
		}
	}
	return n
}

// apply gives events to both.
func (w *world) apply(events []event) error {
	w.longer = 0
	for _, ev := range events {
		if err := w.applyOne(ev); err != nil {
			return err
		}
	}
	w.model.Settle(w.now)
	if err := w.reconcile(); err != nil {
		return err
	}
	return w.pass(w.longer)
}

// longerIdle is by how much a reload lengthens idle timeouts. As much time passes
// after it: an entry that had run out is then out by the new timeout too. Else it
// would come back, but only if its place was not taken in the meantime, which the
// model does not know.
func longerIdle(old, cfg *lb.Config) (longer time.Duration) {
	for i := range cfg.Services {
		if was := old.Service(cfg.Services[i].Name); was != nil {
			longer = max(longer, cfg.Services[i].Tracking.IdleTimeout-was.Tracking.IdleTimeout)
		}
	}
	return longer
}

func (w *world) applyOne(ev event) error {
	switch {
	case ev.health != nil:
		h := ev.health
		for _, addr := range addresses(h.instance) {
			w.model.SetHealth(h.service, h.instance, addr, h.state.State, h.state.Weight, w.now)
			w.e.SetHealth(h.service, h.instance, addr, h.state, w.now)
		}
	case ev.link != nil:
		for _, addr := range addresses(ev.link.instance) {
			w.setLink(addr, ev.link.usable)
		}
	case ev.drain != nil:
		return w.applyDrain(ev.drain)
	case ev.config != nil:
		for i := range ev.config.Services {
			for _, b := range ev.config.Backends(&ev.config.Services[i]) {
				if _, known := w.links[b.Addr]; !known {
					w.setLink(b.Addr, true)
				}
			}
		}
		w.longer += longerIdle(w.config, ev.config)
		w.config = ev.config
		w.model.SetConfig(ev.config, w.now)
		return w.e.SetConfig(ev.config, w.now)
	}
	return nil
}

func (w *world) applyDrain(ev *drainEvent) error {
	change, f := w.e.Drain, w.model.Drain
	if ev.undo {
		change, f = w.e.Undrain, w.model.Undrain
	}
	if err := change(ev.instance, ev.service, w.now); err != nil {
		return nil // of an instance that is not configured
	}
	f(ev.instance, ev.service, w.now)
	return nil
}

// macOf is the link address of a backend.
func macOf(addr netip.Addr) [6]byte {
	mac := [6]byte{0x02, 0x4c}
	bytes := addr.AsSlice()
	copy(mac[2:], bytes[len(bytes)-4:])
	return mac
}

// setLink makes a backend reachable or not. One whose address ends in an odd
// byte is behind another interface.
func (w *world) setLink(addr netip.Addr, usable bool) {
	mac := macOf(addr)
	l := controller.Link{DMAC: mac, SMAC: gatewayMAC, IfIndex: loader.TestIfIndex + uint32(mac[5]&1), Usable: usable}
	w.links[addr] = l
	w.model.SetReachable(addr, usable, w.now)
	w.e.SetLink(addr, l)
}

// mismatch is a step on which program and model disagree.
type mismatch struct {
	step      int
	what      string
	want, got model.Result
}

func (m *mismatch) String() string {
	if m == nil {
		return "the shorter sequence did not fail again"
	}
	return fmt.Sprintf("step %d: %s\n  model   %+v\n  program %+v", m.step, m.what, m.want, m.got)
}
