package lab

import (
	"fmt"
	"slices"
	"strings"

	"l4lb/pkg/selector"
)

// expect is what a client group's new connections must meet.
type expect struct {
	kind     selector.Kind
	reason   selector.Reason
	ratio    string   // as explain gives it
	backends []string // each of them serves, and nobody else
}

// checkExplanation compares the gateway's account with what must be.
func checkExplanation(got selector.Explanation, want expect) error {
	var wrong []string
	differs := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	differs("originalEligible.kind", string(got.OriginalEligible.Kind), string(want.kind))
	differs("reason", string(got.Reason), string(want.reason))
	differs("ratio", got.Ratio, want.ratio)
	differs("modifiedEligible", list(got.ModifiedEligible), list(want.backends))
	if wrong != nil {
		return fmt.Errorf("explain --client %s: %s", got.Client, strings.Join(wrong, ", "))
	}
	return nil
}

// checkTally returns what is wrong with one source's requests: an answer of a
// backend that must not get any, or a request that failed. A request may be
// refused only where a backend of the set is down.
func checkTally(src source, t tally, want expect, down map[string]bool) error {
	for _, name := range sortedKeys(t.answers) {
		if !slices.Contains(want.backends, name) {
			return fmt.Errorf("%s: %d of %d answers came from %s, which must not serve it: want only %s",
				src, t.answers[name], t.total(), name, list(want.backends))
		}
	}
	if t.failed > 0 {
		return fmt.Errorf("%s: %d requests failed, the last with: %w", src, t.failed, t.lastErr)
	}
	anyDown := slices.ContainsFunc(want.backends, func(b string) bool { return down[b] })
	if t.refused > 0 && !anyDown {
		return fmt.Errorf("%s: %d requests were refused, and no backend of its set is down", src, t.refused)
	}
	return nil
}

// silent lists the backends of the set that should have answered and have not
// yet.
func silent(t tally, want expect, down map[string]bool) []string {
	var out []string
	for _, name := range want.backends {
		if !down[name] && t.answers[name] == 0 {
			out = append(out, name)
		}
	}
	return out
}

// list is a set in messages.
func list(names []string) string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return "[" + strings.Join(sorted, " ") + "]"
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
