package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// scenario is everything but the packets.
type scenario struct {
	configs []*lb.Config // the first one, then those of events, in order
	health  map[string]selector.Health
	events  []event
}

// readScenario reads and checks all files but the capture.
func readScenario(o Options) (*scenario, error) {
	s := &scenario{configs: []*lb.Config{o.Config}, health: map[string]selector.Health{}}
	var err error
	if o.HealthFile != "" {
		if s.health, err = ReadHealth(o.HealthFile); err != nil {
			return nil, err
		}
	}
	if o.EventsFile != "" {
		if s.events, err = readEvents(o.EventsFile, o.LoadConfig); err != nil {
			return nil, err
		}
	}
	for _, ev := range s.events {
		if ev.config == nil {
			continue
		}
		if ev.config.Gateway.HashSeed != o.Config.Gateway.HashSeed {
			err := errors.New("l4lb.gateway: changing hashSeed needs a restart: no gateway reloads this")
			return nil, &InputError{File: o.EventsFile, Line: ev.line, Err: err}
		}
		s.configs = append(s.configs, ev.config)
	}
	known := instances(s.configs)
	if err := checkInstances(s.health, known); err != nil {
		return nil, &InputError{File: o.HealthFile, Err: err}
	}
	for _, ev := range s.events {
		if err := checkInstances(ev.health, known); err != nil {
			return nil, &InputError{File: o.EventsFile, Line: ev.line, Err: err}
		}
	}
	return s, nil
}

// instances lists the instances that any of the configurations has.
func instances(configs []*lb.Config) []string {
	set := map[string]bool{}
	for _, cfg := range configs {
		for _, g := range cfg.Groups {
			for _, e := range g.Endpoints {
				set[e.Instance] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

const maxListed = 20

// checkInstances refuses health of an instance that no configuration has: it
// would silently do nothing.
func checkInstances(health map[string]selector.Health, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(health)) {
		if _, found := slices.BinarySearch(known, name); found {
			continue
		}
		list, more := known, ""
		if len(list) > maxListed {
			list, more = list[:maxListed], fmt.Sprintf(" and %d more", len(known)-maxListed)
		}
		return fmt.Errorf("instance %q is in no group; the groups have %s%s", name, strings.Join(list, ", "), more)
	}
	return nil
}
