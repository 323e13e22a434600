package fuzz

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/config"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// gatewayMAC is the link address of the interface that frames come in at.
var gatewayMAC = [6]byte{0x02, 0x4c, 0, 0, 0, 1}

// world is the real program with the real engine, and what this test knows about
// the configuration by itself.
type world struct {
	d      *loader.Datapath
	e      *controller.Engine
	random random
	now    time.Time
	clock  time.Duration

	vips    map[netip.Addr]bool
	wide    []netip.Prefix
	routes  []netip.Prefix
	links   map[netip.Addr]controller.Link
	members map[uint32]member
	out     []byte
	want    []byte // scratch
	seen    tally
	decoder *decoder

	unplugged map[uint32]loader.Member
}

// member is a backend as frames are sent to it.
type member struct {
	head [12]byte // of the frame
	tx   bool     // out of the interface that frames come in at
	way  wrapping
}

func newWorld(r random) (_ *world, err error) {
	d, err := loader.Load(loader.Options{
		FlowEntries: 1 << 14, FlowSeed: r.Uint64() | 1, Members: 256, Rules: 64, Services: 32, Frontends: 64, ZoneNodes: 256,
		StatSlots: 16, Sources: 1 << 12, EchoPerSecond: 1000, Virtual: true,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	w := &world{
		d: d, random: r, now: time.Unix(1_700_000_000, 0), clock: time.Hour, vips: map[netip.Addr]bool{},
		links: map[netip.Addr]controller.Link{}, members: map[uint32]member{}, out: make([]byte, 1<<14), want: make([]byte, 0, 1<<14), decoder: newDecoder(), unplugged: map[uint32]loader.Member{},
	}
	if err := d.SetPort(loader.TestIfIndex, gatewayMAC); err != nil {
		return nil, err
	}
	if w.e, err = controller.NewEngine(d); err != nil {
		return nil, err
	}
	doc, err := config.Parse("fuzz", []byte(configuration))
	if err != nil {
		return nil, err
	}
	if err := w.configure(doc.Config); err != nil {
		return nil, err
	}
	return w, w.d.SetClock(w.clock)
}

func (w *world) configure(cfg *lb.Config) error {
	if err := w.e.SetConfig(cfg, w.now); err != nil {
		return err
	}
	for _, r := range cfg.Rules {
		if r.Address.IsSingleIP() {
			w.vips[r.Address.Addr()] = true
		} else {
			w.wide = append(w.wide, r.Address)
		}
	}
	for _, r := range cfg.Routes {
		w.routes = append(w.routes, r.Dest)
	}
	for i := range cfg.Services {
		for _, b := range cfg.Backends(&cfg.Services[i]) {
			w.setLink(b.SentTo(cfg.Services[i].Forwarding), true)
			w.e.SetInstanceHealth(b.Instance, selector.HealthOf(lb.Healthy), w.now)
		}
	}
	return w.reconcile()
}

// setLink puts every second backend behind another interface.
func (w *world) setLink(addr netip.Addr, usable bool) {
	mac := [6]byte{0x02, 0x4c}
	bytes := addr.AsSlice()
	copy(mac[2:], bytes[len(bytes)-4:])
	l := controller.Link{
		DMAC: mac, SMAC: gatewayMAC, IfIndex: loader.TestIfIndex + uint32(mac[5]&1), Usable: usable,
		MTU: linkMTU, Source: gateway4,
	}
	if addr.Is6() {
		l.Source = gateway6
	}
	w.links[addr] = l
	w.e.SetLink(addr, l)
}

func (w *world) reconcile() error {
	if _, err := w.e.Reconcile(w.now); err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	for _, s := range w.e.Snapshot().Services {
		for _, m := range s.Members {
			sentTo := m.Backend.SentTo(m.Tunnel.Kind)
			l := w.links[sentTo]
			out := member{tx: l.IfIndex == loader.TestIfIndex}
			out.way = wrapping{m.Tunnel.Kind, l.Source, sentTo, out.tx}
			copy(out.head[:6], l.DMAC[:])
			copy(out.head[6:], l.SMAC[:])
			w.members[m.ID] = out
		}
	}
	return nil
}

// pass lets some time go by.
func (w *world) pass() error {
	step := time.Duration(w.random.IntN(50)) * time.Millisecond
	if w.random.oneIn(2000) {
		step = time.Duration(w.random.IntN(700)) * time.Second
	}
	w.now, w.clock = w.now.Add(step), w.clock+step
	return w.d.SetClock(w.clock)
}

// disturb changes the health or the link of a backend, or brings all back.
func (w *world) disturb() error {
	if err := w.unplug(); err != nil {
		return err
	}
	if w.random.oneIn(4) {
		for addr := range w.links {
			w.setLink(addr, true)
		}
		for _, name := range instances {
			w.e.SetInstanceHealth(name, selector.HealthOf(lb.Healthy), w.now)
		}
		return w.reconcile()
	}
	name := choose(w.random, instances...)
	w.e.SetInstanceHealth(name, selector.HealthOf(choose(w.random, lb.Healthy, lb.Unhealthy, lb.Draining)), w.now)
	if w.random.oneIn(4) {
		for addr := range w.links {
			if w.random.oneIn(6) {
				w.setLink(addr, false)
			}
		}
	}
	return w.reconcile()
}

// unplug takes a backend's link address away, which the engine does not do as long
// as the backend is chosen, and gives back the one that was taken before.
func (w *world) unplug() error {
	for id, m := range w.unplugged {
		if err := w.d.SetMember(id, m); err != nil {
			return err
		}
		delete(w.unplugged, id)
	}
	id := 1 + uint32(w.random.IntN(len(w.members)))
	m := w.d.Member(id)
	w.unplugged[id] = m
	m.IfIndex = 0
	return w.d.SetMember(id, m)
}

// owns reports whether an address is one of the configuration's.
func (w *world) owns(a netip.Addr) bool {
	if w.vips[a] {
		return true
	}
	for _, p := range w.wide {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// routed reports whether a route takes what is for an address that nobody has.
func (w *world) routed(a netip.Addr) bool {
	for _, p := range w.routes {
		if p.Contains(a) {
			return !w.owns(a)
		}
	}
	return false
}
