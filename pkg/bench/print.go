package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes results for people.
func Table(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "SCENARIO\tFAMILY\tFLOWS\tNS/PACKET\tDRIVER NS\tMPPS\t")
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.1f\t%.1f\t%.2f\t\n", r.Scenario, r.Family, count(r.Flows), r.NsPerPacket, r.DriverNs, r.Mpps)
	}
	return tw.Flush()
}

// JSON writes results for programs, as one array.
func JSON(w io.Writer, results []Result) error { return writeJSON(w, results) }

// ComparisonTable writes comparisons for people.
func ComparisonTable(w io.Writer, results []Comparison) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "SCENARIO\tFAMILY\tFLOWS\tA NS\tB NS\tB/A\t")
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.1f\t%.1f\t%.3f\t\n", r.Scenario, r.Family, count(r.Flows), r.A, r.B, r.Ratio)
	}
	return tw.Flush()
}

// ComparisonJSON writes comparisons for programs, as one array.
func ComparisonJSON(w io.Writer, results []Comparison) error { return writeJSON(w, results) }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// count writes a power of two with its binary prefix.
func count(n uint32) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d Mi", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d Ki", n>>10)
	}
	return fmt.Sprint(n)
}
