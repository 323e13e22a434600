package metrics

import (
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
)

// noZone is the label of clients and backends that are in no zone.
const noZone = "none"

// Collector reads everything when it is asked. It is safe for concurrent use:
// readings take turns.
type Collector struct {
	opts Options
	d    *descriptions

	mu      sync.Mutex
	failed  uint64
	traffic *ledger[uint32, trafficOwner]
	zones   *ledger[zoneRecord, zoneOwner]
	refused *ledger[uint32, string] // by rule
	checks  *ledger[checkRecord, checkOwner]
	askers  map[asker]healthcheck.Target // at the last reading
}

// unit is a service with its backends of one address family.
type unit struct {
	service string
	ipv6    bool
}

// trafficOwner, in the order of trafficLabels.
type trafficOwner struct{ rule, service, backend, zone string }

type (
	zoneRecord struct{ client, backend uint32 }
	zoneOwner  struct{ client, backend string }
)

// New returns a collector for a registry.
func New(o Options) *Collector {
	return &Collector{
		opts: o, d: newDescriptions(), traffic: newLedger[uint32, trafficOwner](),
		zones: newLedger[zoneRecord, zoneOwner](), refused: newLedger[uint32, string](), checks: newLedger[checkRecord, checkOwner](),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.d.all() {
		out <- d.desc
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out and
// counted.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := sink{out}
	c.collectGateway(s)
	if snapshot := c.opts.State.Snapshot(); snapshot != nil {
		c.collectTraffic(s, snapshot)
		c.collectZones(s, snapshot)
		c.collectRefused(s, snapshot)
		c.collectServices(s, snapshot)
	}
	c.collectDatapath(s)
	c.collectChecks(s)
	c.collectNeighbours(s)
	s.put(c.d.errors, float64(c.failed))
}

// sink takes metrics.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) put(d description, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
}

func (s sink) flag(d description, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.put(d, value, labels...)
}

// failure counts an error and reports whether there is one.
func (c *Collector) failure(err error) bool {
	if err != nil {
		c.failed++
	}
	return err != nil
}

func (c *Collector) collectGateway(s sink) {
	g := c.opts.Gateway()
	s.put(c.d.buildInfo, 1, g.Version, runtime.Version())
	s.flag(c.d.ready, g.Ready)
	for _, i := range g.Interfaces {
		s.flag(c.d.interfaceAttached, i.Attached, i.Name, i.Mode)
	}
	s.put(c.d.configReloads, float64(g.ReloadsDone), "done")
	s.put(c.d.configReloads, float64(g.ReloadsRefused), "refused")
	s.flag(c.d.configRefused, g.ConfigRefused)
	s.put(c.d.configSince, float64(g.ConfigSince.UnixMilli())/1000)
}

// collectTraffic sums, for each rule, what went to a backend by all of its
// addresses.
func (c *Collector) collectTraffic(s sink, snapshot *controller.Snapshot) {
	units := map[unit][]controller.MemberStatus{}
	for _, service := range snapshot.Services {
		units[unit{service.Name, service.IPv6}] = service.Members
	}
	c.traffic.begin()
	for _, r := range snapshot.Rules {
		ipv6 := r.Rule.Address.Addr().Is6()
		members := units[unit{r.Rule.Service, ipv6}]
		if len(members) == 0 {
			// A rule of a service without backends of its family uses
			// those of the other.
			members = units[unit{r.Rule.Service, !ipv6}]
		}
		for _, m := range members {
			record := m.StatBase + r.StatSlot
			t, err := c.opts.Counters.Traffic(record)
			if c.failure(err) {
				continue
			}
			owner := trafficOwner{r.Rule.Name, r.Rule.Service, m.Backend.Instance, zoneLabel(m.Backend.Zone)}
			c.traffic.add(record, owner, counts{t.Packets, t.Bytes, t.Flows})
		}
	}
	c.traffic.end()
	for o, n := range c.traffic.totals {
		s.put(c.d.trafficPackets, float64(n[0]), o.rule, o.service, o.backend, o.zone)
		s.put(c.d.trafficBytes, float64(n[1]), o.rule, o.service, o.backend, o.zone)
		s.put(c.d.trafficFlows, float64(n[2]), o.rule, o.service, o.backend, o.zone)
	}
}

func (c *Collector) collectZones(s sink, snapshot *controller.Snapshot) {
	all := append([]controller.ZoneStatus{{}}, snapshot.Zones...)
	c.zones.begin()
	for _, from := range all {
		for _, to := range all {
			t, err := c.opts.Counters.ZoneTraffic(from.ID, to.ID)
			if c.failure(err) {
				continue
			}
			owner := zoneOwner{zoneLabel(from.Name), zoneLabel(to.Name)}
			c.zones.add(zoneRecord{from.ID, to.ID}, owner, counts{t.Packets, t.Bytes})
		}
	}
	c.zones.end()
	for o, n := range c.zones.totals {
		s.put(c.d.zonePackets, float64(n[0]), o.client, o.backend)
		s.put(c.d.zoneBytes, float64(n[1]), o.client, o.backend)
	}
}

func zoneLabel(zone string) string {
	if zone == "" {
		return noZone
	}
	return zone
}
