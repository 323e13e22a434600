package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Traffic is what was sent to a backend for a rule. Bytes are of whole frames.
type Traffic struct {
	Packets, Bytes uint64
	// Flows counts the packets that followed no tracked flow.
	Flows uint64
}

// StatCapacity is the number of traffic records.
func (d *Datapath) StatCapacity() uint32 { return d.opts.statRecords() }

// Traffic sums one traffic record over the CPUs.
func (d *Datapath) Traffic(record uint32) (Traffic, error) {
	var perCPU []lbTraffic
	if err := d.objs.L4lbStats.Lookup(record, &perCPU); err != nil {
		return Traffic{}, fmt.Errorf("read traffic record %d: %w", record, err)
	}
	var sum Traffic
	for _, t := range perCPU {
		sum.Packets += t.Packets
		sum.Bytes += t.Bytes
		sum.Flows += t.Flows
	}
	return sum, nil
}

// ClearTraffic zeroes one traffic record before it is given to a new use.
func (d *Datapath) ClearTraffic(record uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	return errors.Join(
		d.objs.L4lbStats.Put(record, make([]lbTraffic, cpus)),
		d.objs.L4lbSignals.Put(record, make([]lbSignals, cpus)),
	)
}

// ZoneTraffic sums the traffic of a client zone to a backend zone.
func (d *Datapath) ZoneTraffic(client, backend uint32) (Traffic, error) {
	var perCPU []lbZoneTraffic
	if err := d.objs.L4lbZstats.Lookup(client*ZoneMax+backend, &perCPU); err != nil {
		return Traffic{}, fmt.Errorf("read zone traffic: %w", err)
	}
	var sum Traffic
	for _, t := range perCPU {
		sum.Packets += t.Packets
		sum.Bytes += t.Bytes
	}
	return sum, nil
}

// Reasons counts packets by reason since the maps were made. Index 0 is what was
// passed to the kernel because nothing of it is ours.
func (d *Datapath) Reasons() ([ReasonMax]uint64, error) {
	var out [ReasonMax]uint64
	err := sumCounters(d.objs.L4lbReasons, out[:])
	return out, err
}

// FlowEvents counts what happened to the flow tables.
func (d *Datapath) FlowEvents() ([FlowEventMax]uint64, error) {
	var out [FlowEventMax]uint64
	err := sumCounters(d.objs.L4lbEvents, out[:])
	return out, err
}

func sumCounters(m *ebpf.Map, out []uint64) error {
	for i := range out {
		var perCPU []uint64
		if err := m.Lookup(uint32(i), &perCPU); err != nil {
			return fmt.Errorf("read counter %d of %s: %w", i, m, err)
		}
		out[i] = 0
		for _, n := range perCPU {
			out[i] += n
		}
	}
	return nil
}
