package decap

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// countNames are those of enum outcome, as they are shown.
var countNames = [decapOutcomeDECAP_MAX]string{
	decapOutcomeDECAP_IP:          "ip",
	decapOutcomeDECAP_GUE:         "gue",
	decapOutcomeDECAP_GENEVE:      "geneve",
	decapOutcomeDECAP_OTHER:       "other",
	decapOutcomeDECAP_SOURCE:      "source_not_listed",
	decapOutcomeDECAP_DESTINATION: "destination_not_listed",
	decapOutcomeDECAP_FRAGMENT:    "fragment",
	decapOutcomeDECAP_HEADER:      "header_not_supported",
	decapOutcomeDECAP_MALFORMED:   "malformed",
	decapOutcomeDECAP_CONGESTED:   "congested_not_ect",
	decapOutcomeDECAP_ABORTED:     "aborted",
}

// Counts are frames by what became of them. docs/setup/tunnel-backends.md says what the
// names mean.
type Counts map[string]uint64

// Unwrapped is how many frames were taken out of a tunnel.
func (c Counts) Unwrapped() uint64 {
	return c[countNames[decapOutcomeDECAP_IP]] + c[countNames[decapOutcomeDECAP_GUE]] + c[countNames[decapOutcomeDECAP_GENEVE]]
}

// CountNames lists the names in the order in which they are shown.
func CountNames() []string { return countNames[:] }

// Counts reads the program's counters.
func (d *Decap) Counts() (Counts, error) { return readCounts(d.objs.L4lbOutcomes) }

func readCounts(m *ebpf.Map) (Counts, error) {
	counts := Counts{}
	for i, name := range countNames {
		var cpus []uint64
		if err := m.Lookup(uint32(i), &cpus); err != nil {
			return nil, fmt.Errorf("read counters: %w", err)
		}
		for _, n := range cpus {
			counts[name] += n
		}
	}
	return counts, nil
}
