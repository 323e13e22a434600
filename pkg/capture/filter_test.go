package capture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestFilterErrorsSayWhereAndHow(t *testing.T) {
	tests := []struct{ filter, want string }{
		{"hots 192.0.2.1", `1:1: "hots" is no condition: use host, src`},
		{"tcp port 80", `1:5: "port" is left over: put "and" or "or" between conditions`},
		{"tcp and", `1:8: a condition is missing at the end`},
		{"tcp and and udp", `1:9: "and" is no condition`},
		{"(tcp or udp", `1:12: the parenthesis of column 1 is not closed`},
		{"tcp)", `1:4: ")" is left over`},
		{"host 192.0.2", `1:6: "192.0.2" is no address or network`},
		{"src net 192.0.2.0/33", `1:9: "192.0.2.0/33" is no address or network`},
		{"host fe80::1%eth0", `1:6: "fe80::1%eth0" is no address`},
		{"port http", `1:6: "http" is no port: use a number from 0 to 65535`},
		{"dst port 65536", `1:10: "65536" is no port`},
		{"proto tpc", `1:7: "tpc" is no protocol: use tcp`},
		{"proto 256", `1:7: "256" is no protocol`},
		{"verdict dropped", `1:9: "dropped" is no verdict: use ABORTED, DROP`},
		{"reason NO_RULES", `1:8: "NO_RULES" is no reason: use NONE, MALFORMED`},
		{"flow old", `1:6: "old" is no flow: use NONE, HIT, NEW`},
		{"rule", `1:5: the name of a rule is missing: see l4lbd services`},
		{"tcp and not tcp", `1:1: the conditions contradict each other: no packet matches`},
		{strings.Repeat("(", 100) + "tcp", `more than 64 parentheses in each other`},
		{anyOf("port", 1, 9), `a condition too many: 16 are possible`},
		{strings.Repeat("x", 5000), `the filter has 5000 bytes: 4096 are allowed`},
		{
			"(port 1 or port 2) and (src 192.0.2.1 or src 192.0.2.2) and (proto 1 or proto 2 or proto 3)",
			`too many alternatives: 16 are possible`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.filter[:min(len(tt.filter), 40)], func(t *testing.T) {
			_, err := ParseFilter(tt.filter)
			var wrong *FilterError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "filter:1:") {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// anyOf is "word a or word a+1 or …".
func anyOf(word string, from, to int) string {
	var parts []string
	for i := from; i <= to; i++ {
		parts = append(parts, fmt.Sprint(word, " ", i))
	}
	return strings.Join(parts, " or ")
}

func TestEmptyFilterIsEverything(t *testing.T) {
	for _, text := range []string{"", "  "} {
		if f, err := ParseFilter(text); err != nil || len(f.clauses) != 0 || f.String() != "" {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}

// A condition that stands twice is one, and alternatives that others cover are left
// out.
func TestFilterIsBroughtToFewAlternatives(t *testing.T) {
	tests := []struct {
		filter         string
		terms, clauses int
	}{
		{"tcp", 1, 1},
		{"tcp or tcp", 1, 1},
		{"tcp or not tcp", 1, 2},
		{"tcp or (tcp and arp)", 2, 1},
		{"host 192.0.2.1", 2, 2},
		{"not host 192.0.2.1", 2, 1},
		{"tcp and host 192.0.2.1 and port 80", 5, 4},
		{"not (tcp and port 80)", 3, 2},
		{"(tcp and arp) or tcp", 2, 1},
	}
	for _, tt := range tests {
		f, err := ParseFilter(tt.filter)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(f.terms) != tt.terms || len(f.clauses) != tt.clauses {
			t.Errorf("%q has %d conditions in %d alternatives, want %d in %d", tt.filter, len(f.terms), len(f.clauses), tt.terms, tt.clauses)
		}
	}
}

// holds evaluates a filter's tree as it was written.
func holds(n *node, truth uint16) bool {
	result := n.children == nil && truth>>n.term&1 == 1
	if n.children != nil {
		result = n.and
		for _, child := range n.children {
			if n.and {
				result = result && holds(child, truth)
			} else {
				result = result || holds(child, truth)
			}
		}
	}
	return result != n.not
}

// anyHolds evaluates its alternatives, as the program does.
func anyHolds(clauses []clause, truth uint16) bool {
	for _, c := range clauses {
		if truth&c.yes == c.yes && truth&c.no == 0 {
			return true
		}
	}
	return false
}

// The alternatives mean what the filter says, whatever holds of a packet.
func TestAlternativesMeanWhatTheFilterSays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var random1 func(depth int) *node
	random1 = func(depth int) *node {
		n := &node{term: random.IntN(5), and: random.IntN(2) == 0, not: random.IntN(3) == 0}
		if depth > 0 && random.IntN(4) > 0 {
			for range 1 + random.IntN(3) {
				n.children = append(n.children, random1(depth-1))
			}
		}
		return n
	}
	for range 2000 {
		n := random1(3)
		clauses, ok := expand(n, false)
		if !ok {
			continue
		}
		for truth := range uint16(1 << 5) {
			if want, got := holds(n, truth), anyHolds(clauses, truth); got != want {
				t.Fatalf("of %05b the alternatives %+v make %v, want %v", truth, clauses, got, want)
			}
		}
	}
}

// Whatever is typed is either understood or refused at a place in it.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		"tcp and (host 192.0.2.10 or not src net 2001:db8::/32) and port 80",
		"verdict drop and not reason NO_RULE", "rule web or backend a1 or zone zone-a", "flow hit", "arp or ip6", "((",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		var wrong *FilterError
		switch {
		case err == nil:
			if len(filter.terms) > maxTerms || len(filter.clauses) > maxClauses {
				t.Errorf("%q: %d conditions, %d alternatives", text, len(filter.terms), len(filter.clauses))
			}
			again, err := ParseFilter(filter.String())
			if err != nil || fmt.Sprint(again.clauses) != fmt.Sprint(filter.clauses) {
				t.Errorf("%q is not what its String says: %v", text, err)
			}
		case !errors.As(err, &wrong) || wrong.Column < 1 || wrong.Column > len(text)+1:
			t.Errorf("%q: error %v", text, err)
		}
	})
}
