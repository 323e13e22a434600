// Package doctor looks for what keeps a gateway or a backend from doing its
// work, says what it is, why it matters, and the command that mends it. A check
// looks at one thing. What follows from a fault that another check names is not
// reported as a fault of its own.
//
// Nothing of the host is changed: the only thing that is made, and removed
// again, is the way of test probes where no daemon runs that probes already.
package doctor

import (
	"context"
	"fmt"
	"slices"
)

// Status says how much a finding matters.
type Status string

const (
	// OK is what is as it should be.
	OK Status = "ok"
	// Note is worth knowing and no fault.
	Note Status = "note"
	// Warning is what may be a fault: the doctor cannot tell.
	Warning Status = "warning"
	// Problem keeps packets from where they should go.
	Problem Status = "problem"
)

// Finding is what a check found about one thing. JSON keys are a contract: they
// are only ever added.
type Finding struct {
	Check string `json:"check"`
	// Subject is what was looked at: an interface, a VIP, a backend.
	Subject string `json:"subject"`
	Status  Status `json:"status"`
	What    string `json:"what"`
	// Why says what follows from it, "" where all is well.
	Why string `json:"why"`
	// On is the host that Mend is for, "" for the one that is examined.
	On string `json:"on"`
	// Mend are commands, in order.
	Mend []string `json:"mend"`
}

// Report is everything that was found, in the order of the checks.
type Report struct {
	// Side is what was examined: "gateway" or "backend".
	Side     string    `json:"side"`
	Healthy  bool      `json:"healthy"`
	Findings []Finding `json:"findings"`
}

// Count is how many findings have a status.
func (r *Report) Count(s Status) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Status == s {
			n++
		}
	}
	return n
}

// Info describes a check.
type Info struct {
	Name string
	// Looks says what it looks at, in a few words.
	Looks string
}

// check looks at one thing of a patient.
type check[P any] struct {
	Info
	run func(ctx context.Context, p P) ([]Finding, error)
}

// examine runs checks in order. A check that cannot look is a warning.
func examine[P any](ctx context.Context, side string, checks []check[P], p P) *Report {
	r := &Report{Side: side, Findings: []Finding{}}
	for _, c := range checks {
		found, err := c.run(ctx, p)
		if err != nil {
			found = append(found, Finding{
				Status: Warning, What: fmt.Sprintf("cannot look: %v", err),
				Why: "the doctor needs root to see everything",
			})
		}
		for _, f := range found {
			f.Check = c.Name
			if f.Mend == nil {
				f.Mend = []string{}
			}
			r.Findings = append(r.Findings, f)
		}
	}
	r.Healthy = r.Count(Problem) == 0
	return r
}

func infos[P any](checks []check[P]) []Info {
	out := make([]Info, len(checks))
	for i := range checks {
		out[i] = checks[i].Info
	}
	return out
}

// well is a finding that all is as it should be.
func well(subject, format string, args ...any) Finding {
	return Finding{Subject: subject, Status: OK, What: fmt.Sprintf(format, args...)}
}

// unlessFound is found, or else what says that all is well.
func unlessFound(found []Finding, ok Finding) []Finding {
	if slices.ContainsFunc(found, func(f Finding) bool { return f.Status != Note }) {
		return found
	}
	return append(found, ok)
}
