package controller

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// Engine is the state machine between inputs and maps. It is not safe for
// concurrent use. Inputs take effect at the next Reconcile.
type Engine struct {
	dp    Datapath
	cfg   *lb.Config
	index *configIndex

	serviceIDs, memberIDs, ruleIDs, zoneIDs *ids

	units   map[unitKey]*service
	rules   map[string]*rule
	paths   map[netip.Addr]*path
	drained map[drainKey]bool // by hand
	fills   fillCache

	host Host

	zonesDirty, frontsDirty, routesDirty bool

	zones       []loader.ZonePrefix    // as written
	fronts      []loader.Frontend      // as written
	routes      []loader.Route         // as written
	filters     map[string]filterFacts // at the last look
	staleRanges []uint32               // no rule names them any more
	sweep       bool                   // look at every entry at the next reconcile
	adopted     bool                   // what earlier runs left was dealt with
	version     uint64                 // changes when a Snapshot would
}

// unitKey names the members of a service that have addresses of one family: a
// dual-stack service is two units, each with its own sets, and a rule uses that
// of its address.
type unitKey struct {
	service string
	ipv6    bool
}

// name is how a unit's id is remembered.
func (k unitKey) name() string {
	if k.ipv6 {
		return k.service + "/ipv6"
	}
	return k.service
}

// NewEngine starts from what the data plane remembers of earlier runs.
func NewEngine(dp Datapath) (*Engine, error) {
	e := &Engine{
		dp: dp, units: map[unitKey]*service{}, rules: map[string]*rule{},
		paths: map[netip.Addr]*path{}, drained: map[drainKey]bool{}, fills: newFillCache(),
	}
	var errs [4]error
	e.serviceIDs, errs[0] = restoreIDs(dp, loader.NameService, dp.ServiceCapacity())
	e.memberIDs, errs[1] = restoreIDs(dp, loader.NameMember, dp.MemberCapacity())
	e.ruleIDs, errs[2] = restoreIDs(dp, loader.NameRule, dp.RuleCapacity())
	e.zoneIDs, errs[3] = restoreIDs(dp, loader.NameZone, loader.ZoneMax)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("restore state: %w", err)
	}
	return e, nil
}

// SetConfig makes cfg the desired configuration. Members that left a group
// start to drain at now; unchanged services keep everything. Where cfg does not
// fit the data plane the error wraps loader.ErrFull and the old configuration
// stays in force.
func (e *Engine) SetConfig(cfg *lb.Config, now time.Time) error {
	index := indexConfig(cfg)
	if err := e.checkCapacity(cfg, index); err != nil {
		return err
	}
	e.cfg, e.index = cfg, index
	e.zonesDirty, e.frontsDirty, e.routesDirty = true, true, true
	for i := range cfg.Services {
		if err := e.configureService(&cfg.Services[i], now); err != nil {
			return err
		}
	}
	for key, s := range e.units {
		if index.services[key.service] == nil {
			s.detach()
		}
	}
	e.forgetDrains()
	return e.configureRules()
}

// SetHealth gives the health of a backend as a member of one service.
func (e *Engine) SetHealth(serviceName, instance string, addr netip.Addr, h selector.Health, now time.Time) {
	s := e.units[unitKey{serviceName, addr.Is6()}]
	if s == nil {
		return
	}
	if m := s.members[memberKey{instance, addr}]; m != nil {
		e.setMemberHealth(s, m, h, now)
	}
}

// SetInstanceHealth gives the health of an instance in every service.
func (e *Engine) SetInstanceHealth(instance string, h selector.Health, now time.Time) {
	for _, s := range e.units {
		for key, m := range s.members {
			if key.instance == instance {
				e.setMemberHealth(s, m, h, now)
			}
		}
	}
}

func (e *Engine) setMemberHealth(s *service, m *member, h selector.Health, now time.Time) {
	if h.Weight.Err == lb.WeightUnavailable && h.Weight.PPM == 0 {
		// A probe without an answer says nothing about the weight.
		h.Weight.PPM = m.health.Weight.PPM
	}
	if m.health == h {
		return
	}
	wasDraining := m.health.State == lb.Draining
	m.health = h
	if (h.State == lb.Draining) != wasDraining {
		e.updateDrain(s, m, now)
	}
	s.dirty = true
}

// ErrUnknown is returned for an instance or a service that is not configured.
var ErrUnknown = errors.New("not configured")
