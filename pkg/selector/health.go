package selector

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"l4lb/pkg/lb"
)

// ErrHealth is the error of a health file entry that cannot be read.
var ErrHealth = errors.New("bad health")

// Health is one backend's entry in a health file: a state alone, as in
// "UNHEALTHY", or {"state": "HEALTHY", "weight": 20}. A backend that the file
// does not name is HealthOf(lb.Healthy).
type Health struct {
	State  lb.HealthState
	Weight lb.Weight
}

// HealthOf returns a state without a reported weight: missing where a healthy
// backend answered without one, unavailable where there was no good answer
// (semantics.md 1.9).
func HealthOf(state lb.HealthState) Health {
	if state == lb.Healthy {
		return Health{State: state, Weight: lb.Weight{Err: lb.WeightMissing}}
	}
	return Health{State: state, Weight: lb.Weight{Err: lb.WeightUnavailable}}
}

// UnmarshalJSON reads both forms of an entry. Errors wrap ErrHealth.
func (h *Health) UnmarshalJSON(data []byte) error {
	var state string
	if json.Unmarshal(data, &state) == nil {
		return h.set(state, nil)
	}
	var entry struct {
		State  *string      `json:"state"`
		Weight *json.Number `json:"weight"`
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&entry); err != nil {
		return fmt.Errorf("%w: %w", ErrHealth, err)
	}
	if entry.State == nil {
		return h.set(string(lb.Healthy), entry.Weight)
	}
	return h.set(*entry.State, entry.Weight)
}

func (h *Health) set(state string, weight *json.Number) error {
	switch s := lb.HealthState(state); s {
	case lb.Healthy, lb.Unhealthy, lb.Draining, lb.Unknown:
		*h = HealthOf(s)
	default:
		return fmt.Errorf("%w: state %q is none of HEALTHY, UNHEALTHY, DRAINING, UNKNOWN", ErrHealth, state)
	}
	if weight == nil {
		return nil
	}
	h.Weight = lb.ParseWeight(weight.String())
	if !h.Weight.Valid() {
		return fmt.Errorf("%w: weight %s is no decimal from 0 to %d", ErrHealth, *weight, uint64(lb.MaxWeight))
	}
	return nil
}
