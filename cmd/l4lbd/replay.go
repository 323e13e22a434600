package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"l4lb/pkg/lb"
	"l4lb/pkg/replay"
)

// replayFlags are those of `replay`.
type replayFlags struct {
	config, pcap, health, events, out string
	output                            output
}

func newReplayCommand(e *env) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay --config FILE --pcap IN [--health FILE] [--events FILE] [--out OUT]",
		Short: "Run a capture through the data plane and say what becomes of each packet",
		Long: "Run every packet of a capture through the real XDP program, in order and by the capture's\n" +
			"own time, and say what becomes of each. Nothing is sent; neither a running gateway nor\n" +
			"interfaces nor pinned state are needed or touched. Needs root.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), e) },
	}
	configFlag(c, &f.config, true)
	c.Flags().StringVar(&f.pcap, "pcap", "", "capture `IN`: pcap or pcapng")
	c.Flags().StringVar(&f.health, "health", "", "health `FILE`; who is not named is HEALTHY")
	c.Flags().StringVar(&f.events, "events", "", "events `FILE`: JSON lines of health changes and reloads, each before a packet")
	c.Flags().StringVar(&f.out, "out", "", "capture `OUT` to write the packets to that would leave")
	// The flag was added above.
	_ = c.MarkFlagRequired("pcap")
	f.output.register(c)
	return c
}

func (f *replayFlags) run(ctx context.Context, e *env) error {
	doc, err := loadConfig(f.config)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.pcap); err != nil {
		return usagef("read capture: %w", err)
	}
	o := replay.Options{
		Config: doc.Config, Capture: f.pcap, HealthFile: f.health, EventsFile: f.events,
		LoadConfig: func(path string) (*lb.Config, error) {
			doc, err := loadConfig(path)
			if err != nil {
				return nil, err
			}
			return doc.Config, nil
		},
	}
	records := bufio.NewWriter(e.stdout)
	o.Emit = f.emitter(records)
	var out *outFile
	if f.out != "" {
		if out, err = newOutFile(f.out, f.pcap); err != nil {
			return usageError{err}
		}
		o.Out = out
	}
	summary, err := replay.Run(ctx, o)
	if out != nil {
		var wrong *replay.InputError
		err = errors.Join(err, out.finish(!errors.As(err, &wrong)))
	}
	if err = errors.Join(err, records.Flush()); err != nil {
		return asInput(err)
	}
	for _, w := range summary.Warnings() {
		fmt.Fprintf(e.stderr, "l4lbd: %s\n", w)
	}
	return nil
}

// emitter writes records as JSON lines, or as lines of columns for people.
func (f *replayFlags) emitter(w io.Writer) func(replay.Record) error {
	if f.output.value == "json" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(r replay.Record) error { return enc.Encode(r) }
	}
	const format = "%7v  %-8s  %-4s  %-18s  %-20s  %-20s  %-12s  %s\n"
	header := true
	return func(r replay.Record) error {
		if header {
			header = false
			fmt.Fprintf(w, format, "INDEX", "VERDICT", "FLOW", "REASON", "RULE", "BACKEND", "CLIENT ZONE", "SERVICE")
		}
		_, err := fmt.Fprintf(w, format, r.Index, r.Verdict, r.Flow, or(r.Reason, "-"),
			or(r.ForwardingRule, "-"), or(r.Backend, "-"), or(r.ClientZone, "-"), or(r.Service, "-"))
		return err
	}
}
