package replay

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

const (
	// clockStart is the data plane's time at the first packet.
	clockStart = time.Second
	// maxSpan is what 32 bits of milliseconds hold, and a second to spare.
	maxSpan = 1<<32*time.Millisecond - clockStart - time.Second
	// echoPerSecond lets a millisecond, the tick of a virtual clock, have
	// about the echo replies that a gateway's tick of an eighth of a second
	// has.
	echoPerSecond = 125 * 1000
)

// gatewayMAC is the made-up link address of the gateway.
var gatewayMAC = [6]byte{0x02, 0x4c, 0, 0, 0, 1}

// linkMTU is that of the made-up link to every backend.
const linkMTU = 1500

// gatewaySource makes up the gateway's own address towards a backend.
func gatewaySource(backend netip.Addr) netip.Addr {
	if backend.Is4() {
		return netip.AddrFrom4([4]byte{192, 0, 2, 1})
	}
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1})
}

// backendMAC makes up the link address of a backend: 02:4c and the last four
// bytes of its address.
func backendMAC(addr netip.Addr) [6]byte {
	b := addr.AsSlice()
	last := b[len(b)-4:]
	return [6]byte{0x02, 0x4c, last[0], last[1], last[2], last[3]}
}

// gateway is a data plane with its engine, in the capture's time.
type gateway struct {
	dp      *loader.Datapath
	engine  *controller.Engine
	release func()

	cfg    *lb.Config
	health map[string]selector.Health // of the instances that were named

	started     bool
	first, now  time.Time // of the capture
	next        time.Time // when time alone changes something; zero for never
	names       names
	namesStale  bool
	clientZones map[netip.Addr]string
}

func newGateway(scene *scenario, captureSize int64) (_ *gateway, err error) {
	g := &gateway{cfg: scene.configs[0], health: scene.health, release: func() {}}
	if g.dp, err = loader.Load(datapathOptions(scene.configs, captureSize)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if err := g.dp.SetPort(loader.TestIfIndex, gatewayMAC); err != nil {
		return nil, err
	}
	if g.engine, err = controller.NewEngine(g.dp); err != nil {
		return nil, err
	}
	g.release = hold(g.dp.Program())
	return g, nil
}

func (g *gateway) close() error {
	g.release()
	return g.dp.Close()
}

// advance brings the clock to a packet's time: what ends by time alone on the
// way ends at its own moment. The clock never goes back; backwards says that
// this packet would have it.
func (g *gateway) advance(t time.Time) (backwards bool, err error) {
	if !g.started {
		g.started, g.first, g.now = true, t, t
		if err := g.apply(g.cfg, g.health); err != nil {
			return false, err
		}
	}
	if t.Before(g.now) {
		return true, nil
	}
	if span := t.Sub(g.first); span > maxSpan {
		return false, fmt.Errorf("it is %s after the first packet, %s is the most", span.Round(time.Hour), maxSpan.Round(time.Hour))
	}
	for !g.next.IsZero() && !g.next.After(t) {
		g.now = g.next
		if err := g.reconcile(); err != nil {
			return false, err
		}
	}
	g.now = t
	return false, g.dp.SetClock(clockStart + t.Sub(g.first))
}

func (g *gateway) reconcile() error {
	next, err := g.engine.Reconcile(g.now)
	if err != nil {
		return fmt.Errorf("update data plane: %w", err)
	}
	g.next, g.namesStale = next, true
	return nil
}

// apply brings a configuration, nil for none, and reported health into force, as
// one change.
func (g *gateway) apply(cfg *lb.Config, health map[string]selector.Health) error {
	if cfg != nil {
		if err := g.setConfig(cfg); err != nil {
			return err
		}
	}
	for instance, h := range health {
		g.health[instance] = h
		g.engine.SetInstanceHealth(instance, h, g.now)
	}
	return g.reconcile()
}

// setConfig loads or reloads a configuration. Backends that nothing was reported
// about are healthy, and all can be reached.
func (g *gateway) setConfig(cfg *lb.Config) error {
	if err := g.engine.SetConfig(cfg, g.now); err != nil {
		return fmt.Errorf("apply configuration: %w", err)
	}
	// A capture has one interface, which is every one of the gateway's. It does
	// not know the gateway's own addresses.
	host := controller.Host{Interfaces: map[string]uint32{}}
	for _, name := range cfg.Gateway.Interfaces {
		host.Interfaces[name] = loader.TestIfIndex
	}
	g.engine.SetHost(host)
	g.cfg, g.clientZones = cfg, map[netip.Addr]string{}
	for i := range cfg.Services {
		for _, b := range cfg.Backends(&cfg.Services[i]) {
			to := b.SentTo(cfg.Services[i].Forwarding)
			g.engine.SetLink(to, controller.Link{
				DMAC: backendMAC(to), SMAC: gatewayMAC, IfIndex: loader.TestIfIndex, Usable: true,
				MTU: linkMTU, Source: gatewaySource(to),
			})
			h, ok := g.health[b.Instance]
			if !ok {
				h = selector.HealthOf(lb.Healthy)
			}
			g.engine.SetHealth(cfg.Services[i].Name, b.Instance, b.Addr, h, g.now)
		}
	}
	return nil
}

// run puts a frame through the program. sent is the frame as it would leave,
// nil for one that does not.
func (g *gateway) run(f frame) (record Record, sent []byte, err error) {
	if len(f.run) < minFrame {
		// Shorter than an Ethernet header: no link carries it, no program
		// is given it.
		return Record{Verdict: loader.VerdictPass.String(), Flow: loader.TraceNone.String()}, nil, nil
	}
	trace, out, err := g.dp.Run(f.run)
	if err != nil {
		return Record{}, nil, err
	}
	if g.namesStale {
		g.names.read(g.engine.Snapshot())
		g.namesStale = false
	}
	rule := g.names.rule(trace.Rule)
	record = Record{
		Verdict: trace.Verdict.String(), Reason: trace.Reason.String(),
		Service: rule.service, ForwardingRule: rule.name, Backend: g.names.backend(trace.Member),
		Flow: trace.Flow.String(), ClientZone: g.clientZone(f.source),
	}
	if trace.Verdict != loader.VerdictTX && trace.Verdict != loader.VerdictRedirect {
		out = nil
	}
	return record, out, nil
}

// zonesCached bounds the memory of clientZone.
const zonesCached = 1 << 16

// clientZone is the zone of a source address by the configuration in force.
func (g *gateway) clientZone(source netip.Addr) string {
	if !source.IsValid() || source.Is4In6() {
		return ""
	}
	zone, ok := g.clientZones[source]
	if !ok {
		if len(g.clientZones) >= zonesCached {
			clear(g.clientZones)
		}
		zone = g.cfg.Clients.Classify(source).Zone
		g.clientZones[source] = zone
	}
	return zone
}
