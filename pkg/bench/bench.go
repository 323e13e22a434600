// Package bench measures what a packet costs in the data plane: nanoseconds on
// one CPU, by the kernel's own clock, without a network. The program runs with
// real maps, a full service and a flow table of the usual size; a driver program
// gives it another flow with every packet (bpf/bench_xdp.c), and the driver's own
// cost is subtracted. docs/development/performance.md has the method.
package bench

import (
	"fmt"

	"l4lb/pkg/loader"
)

// Options says what is measured and how often. Zero values mean the defaults in
// parentheses.
type Options struct {
	// Scenarios are those to measure (all).
	Scenarios []Scenario
	// Families are those to measure (both).
	Families []Family
	// Flows are the numbers of established flows, powers of two (1, 1 Ki,
	// 64 Ki, 512 Ki).
	Flows []uint32
	// Rounds is how often the program and its maps are loaded anew: where the
	// kernel happens to put them is part of the result (3).
	Rounds int
	// Samples are taken of each scenario in each round (5).
	Samples int
	// FlowEntries sizes the flow tables (1 Mi).
	FlowEntries uint32
	// Object is another build of the data plane's program to measure instead
	// of the one that is built in ("").
	Object string
}

// Result is the cost of a packet in one scenario.
type Result struct {
	Scenario Scenario `json:"scenario"`
	Family   Family   `json:"family"`
	// Flows is the number of established flows in the flow table.
	Flows uint32 `json:"flows"`
	// NsPerPacket is the program's time, without the driver's.
	NsPerPacket float64 `json:"nsPerPacket"`
	// DriverNs is the time of the driver, which was subtracted.
	DriverNs float64 `json:"driverNs"`
	// Mpps is million packets a second on one CPU that does nothing else.
	Mpps float64 `json:"mpps"`
}

func (o *Options) setDefaults() {
	if len(o.Scenarios) == 0 {
		o.Scenarios = Scenarios()
	}
	if len(o.Families) == 0 {
		o.Families = []Family{IPv4, IPv6}
	}
	if len(o.Flows) == 0 {
		o.Flows = []uint32{1, 1 << 10, 1 << 16, 1 << 19}
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Samples == 0 {
		o.Samples = 5
	}
	if o.FlowEntries == 0 {
		o.FlowEntries = 1 << 20
	}
}

func (o *Options) validate() error {
	for _, n := range o.Flows {
		if n == 0 || n&(n-1) != 0 {
			return fmt.Errorf("%d flows: not a power of two", n)
		}
		if uint64(n)+freshPackets > uint64(o.FlowEntries) {
			return fmt.Errorf("%d flows and %d new ones: more than the flow table's %d entries", n, freshPackets, o.FlowEntries)
		}
	}
	for _, s := range o.Scenarios {
		if _, ok := shapes[s]; !ok {
			return fmt.Errorf("unknown scenario %q", s)
		}
	}
	return nil
}

// Run measures every scenario with every number of flows, in both families. It
// needs root, attaches nothing, and sends nothing.
func Run(o Options) ([]Result, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	cells, err := measure(o, []string{o.Object})
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(cells))
	for i, c := range cells {
		total, driver := midmean(c.total[0]), midmean(c.driver)
		results[i] = Result{
			Scenario: c.scenario, Family: c.family, Flows: c.flows,
			NsPerPacket: total - driver, DriverNs: driver, Mpps: 1e3 / max(total-driver, 1),
		}
	}
	return results, nil
}

// cell is what was measured of one scenario, family and number of flows.
type cell struct {
	scenario Scenario
	family   Family
	flows    uint32
	driver   []float64   // ns of each sample
	total    [][]float64 // of each build, driver and program, ns of each sample
}

// measure takes the samples of all cells for one or more builds of the program,
// which take turns within each sample.
func measure(o Options, objects []string) ([]*cell, error) {
	drv, err := newDriver()
	if err != nil {
		return nil, err
	}
	defer drv.close()
	plan, err := newPlan()
	if err != nil {
		return nil, err
	}
	var cells []*cell
	for _, family := range o.Families {
		for _, flows := range o.Flows {
			group := newCells(o, family, flows, len(objects))
			for range o.Rounds {
				if err := measureRound(drv, plan, o, objects, group); err != nil {
					return nil, fmt.Errorf("%s, %d flows: %w", family, flows, err)
				}
			}
			cells = append(cells, group...)
		}
	}
	return cells, nil
}

func newCells(o Options, family Family, flows uint32, builds int) []*cell {
	var cells []*cell
	for _, s := range o.Scenarios {
		cells = append(cells, &cell{scenario: s, family: family, flows: flows, total: make([][]float64, builds)})
	}
	return cells
}

// measureRound loads the builds, fills their flow tables and takes the samples of
// the cells, which differ in the scenario only.
func measureRound(drv *driver, plan *plan, o Options, objects []string, cells []*cell) error {
	var planes []*plane
	defer func() {
		for _, p := range planes {
			p.close()
		}
	}()
	for _, object := range objects {
		p, err := newPlane(drv, plan, loader.Options{FlowEntries: o.FlowEntries, Object: object})
		if err != nil {
			return err
		}
		planes = append(planes, p)
		if err := p.age(cells[0].family, o.FlowEntries/2); err != nil {
			return err
		}
		if err := p.establish(cells[0].family, cells[0].flows); err != nil {
			return err
		}
	}
	for _, c := range cells {
		if err := sampleCell(drv, planes, o, c); err != nil {
			return fmt.Errorf("%s: %w", c.scenario, err)
		}
	}
	return nil
}
