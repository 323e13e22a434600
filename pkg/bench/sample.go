package bench

import (
	"errors"
	"fmt"

	"l4lb/pkg/loader"
)

const (
	// basePackets is the number of packets of a sample, more where the flows
	// would not be gone through twice.
	basePackets = 1 << 18
	// freshPackets is the number of packets of a sample that needs a new flow
	// for each.
	freshPackets = 1 << 15
	// agePortions is in how many portions a table is used before it is
	// measured.
	agePortions = 16
	// attempts is how often a sample that noise spoilt is taken again.
	attempts = 8
)

// age makes the flow table one that has been in use: flows were made in it, no
// more at a time than have room in its near part, and no longer hold.
func (p *plane) age(family Family, flows uint32) error {
	s := shapes[NewUDP]
	run := s.run(family)
	run.Mask = 1<<31 - 1
	// Once through all of it: the first touch of a page is dear on a virtual machine.
	run.First, p.fresh = p.fresh, p.fresh+2*flows
	if _, err := p.drv.run(p.dp.Program(), run, s.frame(family), 2*flows, s.verdict); err != nil {
		return fmt.Errorf("fill flow table: %w", err)
	}
	p.dp.ClearFlows()
	portion := max(flows/agePortions, 1)
	for range agePortions {
		run.First = p.fresh
		p.fresh += portion
		if _, err := p.drv.run(p.dp.Program(), run, s.frame(family), portion, s.verdict); err != nil {
			return fmt.Errorf("age flow table: %w", err)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

// establish fills the flow table with confirmed flows 0 to flows-1, and no others.
func (p *plane) establish(family Family, flows uint32) error {
	if err := p.flush(); err != nil {
		return err
	}
	before, err := p.dp.FlowEvents()
	if err != nil {
		return err
	}
	s := shapes[EstablishedHit]
	run := s.run(family)
	run.Mask = flows - 1
	for range 2 {
		if _, err := p.drv.run(p.dp.Program(), run, s.frame(family), flows, s.verdict); err != nil {
			return fmt.Errorf("establish flows: %w", err)
		}
	}
	after, err := p.dp.FlowEvents()
	if err != nil {
		return err
	}
	n := after[loader.FlowEventConfirmed] - before[loader.FlowEventConfirmed]
	if n < uint64(flows)-uint64(flows)/1000 {
		return fmt.Errorf("establish flows: %d of %d are confirmed", n, flows)
	}
	return nil
}

// sampleCell takes the samples of one round. One counts only if the driver alone
// ran at full speed both before and after.
func sampleCell(drv *driver, planes []*plane, o Options, c *cell) error {
	s := shapes[c.scenario]
	run, frame := s.run(c.family), s.frame(c.family)
	run.Mask = c.flows - 1
	packets := max(basePackets, 2*c.flows)
	if s.fresh {
		run.Mask, packets = 1<<31-1, freshPackets
	}
	for range o.Samples {
		if err := takeSample(drv, planes, c, s, run, frame, packets); err != nil {
			return err
		}
	}
	return nil
}

// takeSample runs every build once, and again while the machine is busy: the last
// attempt is kept whatever the noise, so that a busy machine gives a result too.
func takeSample(drv *driver, planes []*plane, c *cell, s shape, run benchBenchRun, frame []byte, packets uint32) error {
	totals := make([]float64, len(planes))
	for try := 1; ; try++ {
		before, fast, err := drv.alone(run, frame, basePackets)
		if err != nil {
			return err
		}
		if !fast && try < attempts {
			continue
		}
		for i, p := range planes {
			if totals[i], err = p.sample(c, s, run, frame, packets); err != nil {
				return err
			}
		}
		after, still, err := drv.alone(run, frame, basePackets)
		if err != nil {
			return err
		}
		if fast && still || try >= attempts {
			c.driver = append(c.driver, (before+after)/2)
			for i, ns := range totals {
				c.total[i] = append(c.total[i], ns)
			}
			return nil
		}
	}
}

var errScenario = errors.New("the packets were not what the scenario says")

// sample times so many packets and checks, by the counters of the flow table,
// that each met the fate that the scenario is about.
func (p *plane) sample(c *cell, s shape, run benchBenchRun, frame []byte, packets uint32) (float64, error) {
	if s.fresh {
		if err := p.establish(c.family, c.flows); err != nil { // without the flows of the sample before
			return 0, err
		}
		run.First = p.fresh
		p.fresh += packets
	}
	before, err := p.dp.FlowEvents()
	if err != nil {
		return 0, err
	}
	ns, err := p.drv.run(p.dp.Program(), run, frame, packets, s.verdict)
	if err != nil {
		return 0, err
	}
	after, err := p.dp.FlowEvents()
	if err != nil {
		return 0, err
	}
	made := after[loader.FlowEventNewSYN] + after[loader.FlowEventNewOther] -
		before[loader.FlowEventNewSYN] - before[loader.FlowEventNewOther]
	want := uint64(0)
	if s.newFlows {
		want = uint64(packets) - uint64(packets)/100
	}
	if made < want || want == 0 && made != 0 {
		return 0, fmt.Errorf("%w: %d entries made by %d packets", errScenario, made, packets)
	}
	return ns, nil
}
