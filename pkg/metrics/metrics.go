// Package metrics shows a gateway to Prometheus. Counters are read where they
// are kept, in the data plane's maps and the health checker, when somebody
// asks; docs/setup/metrics.md describes every one.
package metrics

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/loader"
	"l4lb/pkg/neigh"
)

// Counters are the data plane's; *loader.Datapath has them.
type Counters interface {
	Traffic(record uint32) (loader.Traffic, error)
	ZoneTraffic(client, backend uint32) (loader.Traffic, error)
	Refused(rule uint32) (loader.Refused, error)
	Reasons() ([loader.ReasonMax]uint64, error)
	FlowEvents() ([loader.FlowEventMax]uint64, error)
	// FlowCapacity is how many entries each family's table has room for.
	FlowCapacity() int
}

// State is the controller's; Snapshot is nil before the first reconcile.
type State interface {
	Snapshot() *controller.Snapshot
}

// Checks are the health checker's.
type Checks interface {
	Snapshot() healthcheck.Snapshot
}

// Neighbours are the neighbour resolver's.
type Neighbours interface {
	Snapshot() map[netip.Addr]neigh.Entry
}

// Gateway is what the daemon knows about itself.
type Gateway struct {
	Version    string
	Ready      bool
	Interfaces []Interface
	// ConfigSince is when the configuration in force was read.
	ConfigSince time.Time
	// ConfigRefused says that the newest reload was refused.
	ConfigRefused               bool
	ReloadsDone, ReloadsRefused uint64
}

// Interface is one interface of the gateway.
type Interface struct {
	Name, Mode string
	Attached   bool
}

// Options are the sources of a Collector. All are required.
type Options struct {
	Counters   Counters
	State      State
	Checks     Checks
	Neighbours Neighbours
	Suspicions Suspicions
	Gateway    func() Gateway
}

// Handler serves everything that o shows, and the process itself.
func Handler(o Options) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		New(o), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
