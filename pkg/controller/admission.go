package controller

import (
	"fmt"
	"net/netip"
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// admitted is what the data plane has of a rule's admission. At first that is
// nothing: no earlier run leaves any.
type admitted struct {
	ranges []netip.Prefix
	record loader.Admission
}

// writeAdmissions writes what rules ask of new flows, before the records of
// rules say that there is something to ask. A set of ranges is replaced at once:
// the new one is complete before the rule names it, and the old one stays until
// no packet looks at it.
func (e *Engine) writeAdmissions() error {
	if !e.frontsDirty {
		return nil
	}
	for _, r := range e.sortedRules() {
		if err := e.writeAdmission(r, r.cfg.Admission); err != nil {
			return fmt.Errorf("write admission of rule %q: %w", r.cfg.Name, err)
		}
	}
	e.sweep = e.sweep || e.filtersChanged()
	return nil
}

func (e *Engine) writeAdmission(r *rule, cfg lb.Admission) error {
	was := &r.admitted
	record := loader.Admission{
		Ranges:      was.record.Ranges,
		Flows:       loader.FlowRate(cfg.Flows),
		SourceFlows: loader.FlowRate(cfg.SourceFlows),
		SourceBits:  sourceBits(&r.cfg, cfg.SourcePrefix),
	}
	if !slices.Equal(was.ranges, cfg.AllowedSources) {
		record.Ranges = 0
		if len(cfg.AllowedSources) > 0 {
			var err error
			if record.Ranges, err = e.dp.NewRanges(cfg.AllowedSources); err != nil {
				return err
			}
		}
		if was.record.Ranges != 0 {
			e.staleRanges = append(e.staleRanges, was.record.Ranges)
		}
	}
	if record == was.record {
		return nil
	}
	r.admitted = admitted{cfg.AllowedSources, record}
	return e.dp.SetAdmission(r.id, record)
}

// sourceBits counts as in the 16-byte form of addresses.
func sourceBits(r *lb.ForwardingRule, prefix int) uint8 {
	if r.Address.Addr().Is4() && prefix > 0 {
		return uint8(96 + prefix)
	}
	return uint8(prefix)
}

// endAdmissions gives back what no packet looks at any more: sets of ranges that
// were replaced, and what rules that are gone had.
func (e *Engine) endAdmissions() error {
	for _, r := range e.rules {
		if r.gone && r.admitted.record != (loader.Admission{}) {
			if err := e.writeAdmission(r, lb.Admission{}); err != nil {
				return err
			}
			e.dp.Settle()
		}
	}
	for _, id := range e.staleRanges {
		if err := e.dp.DeleteRanges(id); err != nil {
			return err
		}
	}
	e.staleRanges = nil
	return nil
}

// countRanges is the number of ranges that are written.
func (e *Engine) countRanges() uint32 {
	n := 0
	for _, r := range e.rules {
		n += len(r.admitted.ranges)
	}
	return uint32(n)
}

func countRanges(cfg *lb.Config) uint32 {
	n := 0
	for i := range cfg.Rules {
		n += len(cfg.Rules[i].Admission.AllowedSources)
	}
	for _, name := range cfg.NextHops() {
		if r := cfg.Rule(name); r != nil {
			n += len(r.Admission.AllowedSources) // once more, for its routes
		}
	}
	return uint32(n)
}
