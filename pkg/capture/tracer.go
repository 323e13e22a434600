package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"l4lb/pkg/loader"
)

// objects are those parts of the collection that are loaded here: its other maps
// are the gateway's.
type objects struct {
	Program *ebpf.Program `ebpf:"l4lb_capture"`
	Ports   *ebpf.Map     `ebpf:"l4lb_cap_ports"`
	IDs     *ebpf.Map     `ebpf:"l4lb_cap_ids"`
	Until   *ebpf.Map     `ebpf:"l4lb_cap_until"`
	Ring    *ebpf.Map     `ebpf:"l4lb_cap_ring"`
}

// ownMaps begins the names of the maps that a capture brings along.
const ownMaps = "l4lb_cap_"

// tracer is the program that shows its packets, on the maps of the running one.
type tracer struct {
	objs objects
	id   ebpf.ProgramID
}

// newTracer loads the program; nothing is attached yet.
func newTracer(running *loader.Running, o *Options) (_ *tracer, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory lock limit: %w", err)
	}
	spec, err := loadTracer()
	if err != nil {
		return nil, fmt.Errorf("load capture: %w", err)
	}
	replacements, err := adopt(spec, running)
	if err != nil {
		return nil, fmt.Errorf("load capture: %w", err)
	}
	if err := prepare(spec, running, o); err != nil {
		return nil, fmt.Errorf("load capture: %w", err)
	}
	t := &tracer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	err = spec.LoadAndAssign(&t.objs, &ebpf.CollectionOptions{MapReplacements: replacements})
	if err != nil {
		return nil, fmt.Errorf("load capture: %w", err)
	}
	info, err := t.objs.Program.Info()
	if err != nil {
		return nil, fmt.Errorf("load capture: %w", err)
	}
	t.id, _ = info.ID()
	return t, nil
}

// adopt gives the program the maps of the running one: all that it uses but its own.
func adopt(spec *ebpf.CollectionSpec, running *loader.Running) (map[string]*ebpf.Map, error) {
	replacements := map[string]*ebpf.Map{}
	for _, ins := range spec.Programs[tracerProgL4lbCapture].Instructions {
		name := ins.Reference()
		m := spec.Maps[name]
		if !ins.IsLoadFromMap() || strings.HasPrefix(name, ownMaps) || strings.HasPrefix(name, ".rodata") {
			continue
		}
		theirs := running.Maps[name]
		if m == nil || theirs == nil {
			return nil, fmt.Errorf("%w: it has no map %s", loader.ErrVersion, name)
		}
		// Sizes are the gateway's configuration, types its version.
		m.MaxEntries = theirs.MaxEntries()
		replacements[name] = theirs
	}
	return replacements, nil
}

// prepare fills in the constants: those of the running program and the capture's.
func prepare(spec *ebpf.CollectionSpec, running *loader.Running, o *Options) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	spec.Maps[tracerMapL4lbCapCpus].MaxEntries = uint32(cpus)
	for name, value := range running.Constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if frags := running.Constants[tracerVarCfgFrags]; len(frags) == 1 && frags[0] != 0 {
		loader.WithFrags(spec.Programs[tracerProgL4lbCapture])
	}
	terms, clauses := o.Filter.constants()
	gap, ahead := o.rate()
	for name, value := range map[string]any{
		tracerVarCfgTrace:       uint8(1),
		tracerVarCfgTerms:       terms,
		tracerVarCfgClauses:     clauses,
		tracerVarCfgClauseCount: uint32(len(o.Filter.clauses)),
		tracerVarCfgSnaplen:     uint32(o.SnapLen),
		tracerVarCfgGap:         gap,
		tracerVarCfgBurst:       ahead,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

func (t *tracer) close() error {
	o := &t.objs
	errs := []error{o.Program.Close()}
	for _, m := range []*ebpf.Map{o.Ports, o.IDs, o.Until, o.Ring} {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// setPorts says which interfaces are captured.
func (t *tracer) setPorts(links []loader.PinnedLink) error {
	none := make([]tracerCaptureCounts, ebpf.MustPossibleCPU())
	for _, l := range links {
		err := t.objs.Ports.Update(l.IfIndex, none, ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("capture %s: %w", l.Interface, err)
		}
	}
	return nil
}

// counts adds up what the CPUs counted for an interface.
func (t *tracer) counts(ifindex uint32) (sum tracerCaptureCounts, err error) {
	var all []tracerCaptureCounts
	if err := t.objs.Ports.Lookup(ifindex, &all); err != nil {
		return sum, fmt.Errorf("read counts: %w", err)
	}
	for _, c := range all {
		sum.Seen += c.Seen
		sum.Matched += c.Matched
		sum.Skipped += c.Skipped
		sum.Lost += c.Lost
	}
	return sum, nil
}

// setIDs brings the ids that conditions name up to date.
func (t *tracer) setIDs(want, have map[tracerCaptureId]bool) error {
	for id := range want {
		if have[id] {
			continue
		}
		if err := t.objs.IDs.Update(id, uint8(1), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("set up filter: %w", err)
		}
	}
	for id := range have {
		if want[id] {
			continue
		}
		if err := t.objs.IDs.Delete(id); err != nil {
			return fmt.Errorf("set up filter: %w", err)
		}
	}
	return nil
}

// readerTimeout is how long the program goes on copying packets when nobody says
// any more that they are read: it may be left behind where both this process and
// the daemon are killed.
const readerTimeout = 5 * time.Second

// keepReading says that packets are read.
func (t *tracer) keepReading() error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	if err := t.objs.Until.Update(uint32(0), uint64(now+readerTimeout), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("keep the capture going: %w", err)
	}
	return nil
}

// monotonic is the clock that the program reads.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// clock turns monotonic time into that of day.
type clock struct{ start time.Time }

func (c *clock) read() error {
	now, err := monotonic()
	if err == nil {
		c.start = time.Now().Round(0).Add(-now)
	}
	return err
}

func (c *clock) time(ns uint64) time.Time { return c.start.Add(time.Duration(ns)) }

// chosen are the links of the interfaces that are asked for.
func (o *Options) chosen(links []loader.PinnedLink) []loader.PinnedLink {
	return slices.DeleteFunc(links, func(l loader.PinnedLink) bool {
		return l.IfIndex == 0 || len(o.Interfaces) > 0 && !slices.Contains(o.Interfaces, l.Interface)
	})
}
