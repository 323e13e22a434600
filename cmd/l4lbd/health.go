package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/replay"
	"l4lb/pkg/selector"
)

// readHealth reads a health file. One that cannot be read is bad usage.
func readHealth(path string) (map[string]selector.Health, error) {
	health, err := replay.ReadHealth(path)
	return health, asInput(err)
}

// asInput marks what is wrong with a file that the command line names.
func asInput(err error) error {
	var input *replay.InputError
	if errors.As(err, &input) {
		return usageError{err}
	}
	return asUsage(err)
}

// warnStrangers tells of instances in a health file that the configuration does
// not have: they are likely a slip.
func (e *env) warnStrangers(path string, health map[string]selector.Health, cfg *lb.Config) {
	known := map[string]bool{}
	for _, g := range cfg.Groups {
		for _, ep := range g.Endpoints {
			known[ep.Instance] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(health)) {
		if !known[name] {
			fmt.Fprintf(e.stderr, "l4lbd: %s: %q is no instance of the configuration\n", path, name)
		}
	}
}
