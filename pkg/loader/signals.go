package loader

import "fmt"

// Signals is what the traffic of a rule with Signals shows of a backend, since
// the program was loaded.
type Signals struct {
	// SYNs made a flow of their own, and Confirmed is how many of those had
	// a second packet.
	SYNs, Confirmed uint64
	// Unreachable counts ICMP port unreachable about the flows.
	Unreachable uint64
}

// Signals sums one record over the CPUs. Records are those of Traffic.
func (d *Datapath) Signals(record uint32) (Signals, error) {
	var perCPU []lbSignals
	if err := d.objs.L4lbSignals.Lookup(record, &perCPU); err != nil {
		return Signals{}, fmt.Errorf("read signals record %d: %w", record, err)
	}
	var sum Signals
	for _, s := range perCPU {
		sum.SYNs += s.Syns
		sum.Confirmed += s.Confirmed
		sum.Unreachable += s.Unreachable
	}
	return sum, nil
}
