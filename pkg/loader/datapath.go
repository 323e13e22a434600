// Package loader owns the kernel side: it loads the XDP program, creates or
// adopts its maps, attaches it, and gives every map a typed handle. It decides
// nothing: what to write comes from pkg/controller.
package loader

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// TableSize is the number of slots of a selection table.
const TableSize = 65537

// ZoneMax is the number of client zones a gateway can tell apart, with zone 0,
// no zone.
const ZoneMax = 64

var (
	// ErrFull is returned when a table's fixed size is used up.
	ErrFull = errors.New("table is full")
	// ErrLayout is returned when pinned maps do not fit this program.
	ErrLayout = errors.New("pinned maps have another layout")
	// ErrBusy is returned when an interface has another XDP program.
	ErrBusy = errors.New("interface has another XDP program")
)

// Options sizes a data plane. Zero values mean the defaults in parentheses.
type Options struct {
	// PinDir is a directory on a BPF file system where state survives the
	// process. "" pins nothing.
	PinDir string
	// FlowEntries is how many flows each address family can hold (1 Mi).
	FlowEntries uint32
	// SelectSeed is mixed into every choice of a backend.
	SelectSeed uint64
	// FlowSeed places flows in their table; 0 is a random one. A pinned table
	// keeps its own.
	FlowSeed uint64
	// Members, Rules, Services, Frontends and ZoneNodes are capacities
	// (16384, 4096, 1024, 4096, 1024).
	Members, Rules, Services, Frontends, ZoneNodes uint32
	// Ranges is how many allowed source ranges all rules together can have,
	// and Sources how many sources' rates are remembered (65536 each).
	Ranges, Sources uint32
	// StatSlots is how many rules of one service have counters of their own
	// (8).
	StatSlots uint32
	// EchoPerSecond is how many echo requests for VIPs one CPU answers a
	// second (1000).
	EchoPerSecond uint32
	// TooBigPerSecond is how many packets that are too big for their tunnel one
	// CPU answers a second (1000).
	TooBigPerSecond uint32
	// Frags has the program take frames that come in several buffers, as those
	// of an interface may whose MTU is above lb.PageMTU.
	Frags bool
	// Virtual makes time the value last given to SetClock, in milliseconds,
	// and has every packet leave a Trace. For replay and tests.
	Virtual bool
	// Object is the file of another build of the program, to be compared with
	// the one that is built in (""). Its maps must be laid out the same.
	Object string
}

// Datapath is one loaded program with its maps. Its methods that write are for
// one goroutine, the controller's; those that read are safe for concurrent use.
type Datapath struct {
	objs  lbObjects
	opts  Options
	clock clock

	members []lbMember
	tunnels []lbTunnel
	rules   []lbRule
	picks   []lbPick
	fronts  []lbFront
	zones   []lbZoneNode
	ports   []lbPort
	admits  []lbAdmission
	flows4  []lbBucket4
	flows6  []lbBucket6
	control lbControlState
	// spillLife is the program's spill_life.
	spillLife uint32

	tables   tableSet
	ranges   rangeSets
	mappings [][]byte

	mu    sync.Mutex // for what follows
	links map[string]*attachment
	lent  *ebpf.Program // in the place of L4lbIngress, or nil
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *uint32
		def   uint32
	}{
		{&o.FlowEntries, 1 << 20},
		{&o.Members, 1 << 14},
		{&o.Rules, 1 << 12},
		{&o.Services, 1 << 10},
		{&o.Frontends, 1 << 12},
		{&o.ZoneNodes, 1 << 10},
		{&o.EchoPerSecond, 1000},
		{&o.Ranges, 1 << 16},
		{&o.Sources, 1 << 16},
		{&o.TooBigPerSecond, 1000},
		{&o.StatSlots, 8},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
}

// Load verifies the program with its constants baked in and creates its maps,
// or adopts those under o.PinDir. Nothing is attached yet: packets go on being
// handled by the program that was attached before, if any. On error no kernel
// object is left behind.
func Load(o Options) (_ *Datapath, err error) {
	o.setDefaults()
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory lock limit: %w", err)
	}
	if o.Members > 1<<24 || o.Rules > 1<<16 || o.ZoneNodes < 2 {
		return nil, fmt.Errorf("load datapath: %d members, %d rules or %d zone nodes are beyond what ids can name",
			o.Members, o.Rules, o.ZoneNodes)
	}
	spec, err := loadSpec(o.Object)
	if err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	d := &Datapath{opts: o, links: map[string]*attachment{}}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.clock, err = newClock(o.Virtual); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	pinned, err := openPinned(o.PinDir)
	if err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	defer pinned.close()
	if o.FlowSeed != 0 && pinned.maps[lbMapL4lbNames] == nil {
		pinned.flowSeed = o.FlowSeed
	}
	sizeMaps(spec, o)
	if err := d.setConstants(spec, pinned.flowSeed); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	if err := pinned.check(spec); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	if o.Frags {
		WithFrags(spec.Programs[lbProgL4lbIngress])
	}
	err = spec.LoadAndAssign(&d.objs, &ebpf.CollectionOptions{MapReplacements: pinned.maps})
	if err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	if err := d.mapMemory(); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	if err := d.adoptSpillLife(); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	d.tables = newTableSet(d.objs.L4lbTables, d.objs.L4lbWide)
	d.ranges = newRangeSets(d.objs.L4lbRanges)
	if err := pinned.pinNew(d); err != nil {
		return nil, fmt.Errorf("load datapath: %w", err)
	}
	return d, nil
}

func loadSpec(object string) (*ebpf.CollectionSpec, error) {
	if object != "" {
		return ebpf.LoadCollectionSpec(object)
	}
	return loadLb()
}

// setConstants fills in bpf/include/config.h.
func (d *Datapath) setConstants(spec *ebpf.CollectionSpec, flowSeed uint64) error {
	parts := flowBuckets(d.opts.FlowEntries)
	perTick := func(perSecond uint32) uint32 {
		return max(uint32(float64(perSecond)/d.clock.perSecond), 1)
	}
	flag := func(on bool) uint8 {
		if on {
			return 1
		}
		return 0
	}
	for name, value := range map[string]any{
		lbVarCfgFlowSeed:     flowSeed,
		lbVarCfgSelectSeed:   d.opts.SelectSeed,
		lbVarCfgFlowNear:     parts.near,
		lbVarCfgFlowMiddle:   parts.middle,
		lbVarCfgFlowFar:      parts.far,
		lbVarCfgSpillShift:   spillShift(d.clock),
		lbVarCfgFrontMask:    frontSlots(d.opts.Frontends) - 1,
		lbVarCfgZoneNodes:    d.opts.ZoneNodes,
		lbVarCfgPortMask:     uint32(portSlots - 1),
		lbVarCfgClockShift:   d.clock.shift,
		lbVarCfgVirtualClock: flag(d.opts.Virtual),
		lbVarCfgTrace:        flag(d.opts.Virtual),
		lbVarCfgFrags:        flag(d.opts.Frags),
		lbVarCfgEchoLimit:    perTick(d.opts.EchoPerSecond),
		lbVarCfgTooBigLimit:  perTick(d.opts.TooBigPerSecond),
	} {
		if spec.Variables[name] == nil {
			return fmt.Errorf("the program has no constant %s", name)
		}
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// sizeMaps gives the maps marked (loader) in bpf/include/maps.h their sizes.
func sizeMaps(spec *ebpf.CollectionSpec, o Options) {
	buckets := flowBuckets(o.FlowEntries).all()
	for name, entries := range map[string]uint32{
		lbMapL4lbFlows4:  buckets,
		lbMapL4lbFlows6:  buckets,
		lbMapL4lbMembers: o.Members,
		lbMapL4lbTunnels: 2 * o.Members,
		lbMapL4lbRules:   o.Rules,
		lbMapL4lbStats:   o.statRecords(),
		lbMapL4lbSignals: o.statRecords(),
		lbMapL4lbNames:   o.nameRecords(),
		lbMapL4lbPicks:   o.Services * ZoneMax,
		lbMapL4lbTables:  o.tableRecords(),
		lbMapL4lbFronts:  2 * frontSlots(o.Frontends),
		lbMapL4lbZones:   2 * o.ZoneNodes,
		lbMapL4lbPorts:   portSlots,

		lbMapL4lbWide:      o.tableRecords(),
		lbMapL4lbRefused:   o.Rules,
		lbMapL4lbAdmission: o.Rules,
		lbMapL4lbRanges:    o.Ranges,
		lbMapL4lbSources:   o.Sources,
	} {
		spec.Maps[name].MaxEntries = entries
	}
}

// statRecords is the number of (member, rule) counter records.
func (o Options) statRecords() uint32 { return o.Members * o.StatSlots }

// tableRecords is one more than the number of selection tables.
func (o Options) tableRecords() uint32 { return 4 * o.Services }

// Close releases the process's handles. What is pinned stays, an attached and
// pinned program goes on forwarding.
func (d *Datapath) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, a := range d.links {
		errs = append(errs, a.link.Close())
	}
	d.links = nil
	errs = append(errs, d.unmapMemory(), d.clock.close(), d.objs.Close())
	return errors.Join(errs...)
}

// Program is the loaded program. It is the Datapath's: callers do not close it.
func (d *Datapath) Program() *ebpf.Program { return d.objs.L4lbIngress }

// Ticks converts a duration to the unit of the flow table's timestamps,
// rounding up.
func (d *Datapath) Ticks(t time.Duration) uint32 { return d.clock.ticks(t) }

// TickDuration is the length of one tick.
func (d *Datapath) TickDuration() time.Duration {
	return time.Duration(float64(time.Second) / d.clock.perSecond)
}
