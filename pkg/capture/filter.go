package capture

import (
	"fmt"
	"slices"
	"strings"
)

// Filter says which packets are captured. The zero value is all of them.
type Filter struct {
	text    string
	terms   []term
	clauses []clause
}

// A filter's size is bounded, so that what it costs a packet is.
const (
	maxTerms   = 16
	maxClauses = 16
	maxFilter  = 4096 // bytes
)

// term is one condition. Those with names hold for the ids that the running
// gateway gives them.
type term struct {
	kind  tracerCaptureKind
	value uint32
	addr  prefix
	name  string
	at    int // where the name stands in the text
}

// clause is an alternative: the conditions, by their bits, that must and must not
// hold.
type clause struct{ yes, no uint16 }

// FilterError says where a filter is not understood, and how to mend it.
type FilterError struct {
	Filter string
	Column int // from 1
	Msg    string
}

func (e *FilterError) Error() string { return fmt.Sprintf("filter:1:%d: %s", e.Column, e.Msg) }

// ParseFilter reads a filter. "" is all packets. Errors are FilterErrors.
func ParseFilter(text string) (*Filter, error) {
	f := &Filter{text: text}
	if len(text) > maxFilter {
		return nil, &FilterError{text, maxFilter + 1, fmt.Sprintf("the filter has %d bytes: %d are allowed", len(text), maxFilter)}
	}
	if strings.TrimSpace(text) == "" {
		return f, nil
	}
	p := &parser{filter: f, text: text, tokens: split(text)}
	root, err := p.alternatives(0)
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.text != "" {
		return nil, p.errorf(t, "%q is left over: put \"and\" or \"or\" between conditions", t.text)
	}
	return f, f.compile(root)
}

// String is the filter as it was given.
func (f *Filter) String() string { return strings.TrimSpace(f.text) }

// node is a part of a filter: a condition (term, children nil), or children that
// must all hold (and), or of which one must (or). not turns it round.
type node struct {
	term     int
	and, not bool
	children []*node
}

// compile brings the filter to alternatives of conditions.
func (f *Filter) compile(root *node) error {
	clauses, ok := expand(root, false)
	switch {
	case !ok:
		return &FilterError{f.text, 1, fmt.Sprintf("too many alternatives: %d are possible once \"or\" and \"not\" are "+
			"spelt out: use fewer, or a network instead of addresses", maxClauses)}
	case len(clauses) == 0:
		return &FilterError{f.text, 1, "the conditions contradict each other: no packet matches"}
	}
	f.clauses = clauses
	return nil
}

// expand lists the alternatives of a part, of its contrary where not is set. ok is
// false when there are too many.
func expand(n *node, not bool) (out []clause, ok bool) {
	not = not != n.not
	if n.children == nil {
		bit := uint16(1) << n.term
		if not {
			return []clause{{no: bit}}, true
		}
		return []clause{{yes: bit}}, true
	}
	all := n.and != not // de Morgan
	if all {
		out = []clause{{}}
	}
	for _, child := range n.children {
		more, ok := expand(child, not)
		if !ok {
			return nil, false
		}
		if all {
			more = product(out, more)
		} else {
			more = append(out, more...)
		}
		if out = simplify(more); len(out) > maxClauses {
			return nil, false
		}
	}
	return out, true
}

// product pairs the alternatives of two parts that must both hold.
func product(a, b []clause) []clause {
	var out []clause
	for _, x := range a {
		for _, y := range b {
			if c := (clause{x.yes | y.yes, x.no | y.no}); c.yes&c.no == 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// simplify leaves out alternatives that another one covers.
func simplify(clauses []clause) []clause {
	var out []clause
	for _, c := range clauses {
		covers := func(o clause) bool { return o.yes&c.yes == o.yes && o.no&c.no == o.no }
		if slices.ContainsFunc(out, covers) {
			continue
		}
		out = slices.DeleteFunc(out, func(o clause) bool { return c.yes&o.yes == c.yes && c.no&o.no == c.no })
		out = append(out, c)
	}
	return out
}

// constants are what the programs are given of the filter.
func (f *Filter) constants() (terms [maxTerms]tracerCaptureTerm, clauses [maxClauses]tracerCaptureClause) {
	for i, c := range f.terms {
		terms[i] = tracerCaptureTerm{Kind: uint32(c.kind), Value: c.value, Addr: c.addr.addr, Mask: c.addr.mask}
	}
	for i, c := range f.clauses {
		clauses[i] = tracerCaptureClause{Yes: c.yes, No: c.no}
	}
	return terms, clauses
}
