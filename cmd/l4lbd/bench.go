package main

import (
	"github.com/spf13/cobra"

	"l4lb/pkg/bench"
)

// benchFlags are those of `bench`.
type benchFlags struct {
	scenarios, families []string
	flows               []uint
	rounds, samples     int
	object, compare     string
	output              output
}

func newBenchCommand(e *env) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the data plane: ns per packet for fixed scenarios",
		Long: "Measure the data plane: ns per packet for fixed scenarios, without the cost of the driver that\n" +
			"makes the packets. Nothing is attached or sent. Needs root and some minutes.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run(e) },
	}
	c.Flags().StringSliceVar(&f.scenarios, "scenario", nil, "`NAMES` of the scenarios to measure; default is all")
	c.Flags().StringSliceVar(&f.families, "family", nil, "`FAMILIES` to measure: ipv4, ipv6; default is both")
	c.Flags().UintSliceVar(&f.flows, "flows", nil, "`NUMBERS` of established flows, powers of two; default is 1,1024,65536,524288")
	c.Flags().IntVar(&f.rounds, "rounds", 0, "`NUMBER` of times the program and its maps are loaded anew; default is 3")
	c.Flags().IntVar(&f.samples, "samples", 0, "`NUMBER` of samples in each round; default is 5")
	c.Flags().StringVar(&f.object, "object", "", "object `FILE` of another build of the program, to measure in place of the one that is built in")
	c.Flags().StringVar(&f.compare, "compare", "", "object `FILE` of another build, to be compared with the first")
	f.output.register(c)
	return c
}

func (f *benchFlags) options() (bench.Options, error) {
	o := bench.Options{Rounds: f.rounds, Samples: f.samples, Object: f.object}
	if f.rounds < 0 || f.samples < 0 {
		return o, usagef("--rounds and --samples are 1 or more")
	}
	for _, s := range f.scenarios {
		o.Scenarios = append(o.Scenarios, bench.Scenario(s))
	}
	for _, s := range f.families {
		if s != string(bench.IPv4) && s != string(bench.IPv6) {
			return o, usagef("--family %q: use ipv4 or ipv6", s)
		}
		o.Families = append(o.Families, bench.Family(s))
	}
	for _, n := range f.flows {
		o.Flows = append(o.Flows, uint32(n))
	}
	return o, nil
}

func (f *benchFlags) run(e *env) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if f.compare != "" {
		results, err := bench.Compare(o, f.object, f.compare)
		if err != nil {
			return err
		}
		if f.output.value == "json" {
			return bench.ComparisonJSON(e.stdout, results)
		}
		return bench.ComparisonTable(e.stdout, results)
	}
	results, err := bench.Run(o)
	if err != nil {
		return err
	}
	if f.output.value == "json" {
		return bench.JSON(e.stdout, results)
	}
	return bench.Table(e.stdout, results)
}
