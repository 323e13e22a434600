package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lab"
)

func newLabCommand(e *env) *cobra.Command {
	var o lab.LoadOptions
	var load bool
	c := &cobra.Command{
		Use:   "lab",
		Short: "Show the whole system in network namespaces on this machine",
		Long: "Build zones of clients and backends, a router and a gateway as network namespaces, run\n" +
			"the daemon on the gateway, and tell a story: backends die and recover, and each step\n" +
			"checks where real connections go. Fails when a step does not hold. Needs root; nothing\n" +
			"outside of the namespaces is touched. What a killed lab leaves, the next one removes.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("the lab makes network namespaces: run it as root")
			}
			if load && o.Keep {
				return usagef("--keep belongs to the story: leave out --load")
			}
			var err error
			if o.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			o.Out = e.stdout
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
			defer stop()
			if load {
				_, err = lab.Load(ctx, o)
				return err
			}
			return lab.Run(ctx, o.Options)
		},
	}
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave the lab up after the story, until Ctrl-C, and print commands to try")
	c.Flags().BoolVar(&load, "load", false, "instead of the story, keep many connections open while backends flap and the configuration changes")
	c.Flags().IntVar(&o.Connections, "connections", 10_000, "with --load, how `MANY` connections")
	c.Flags().IntVar(&o.Reloads, "reloads", 50, "with --load, how `OFTEN` the configuration changes")
	c.Flags().DurationVar(&o.Interval, "interval", 200*time.Millisecond, "with --load, the `TIME` between changes")
	c.AddCommand(newLabClientsCommand(e))
	return c
}

// newLabClientsCommand is what the load test runs in a client's namespace.
func newLabClientsCommand(e *env) *cobra.Command {
	var o lab.ClientOptions
	c := &cobra.Command{
		Use:    "clients --target ADDRESS --count N",
		Short:  "Open connections to echo servers and talk over them until standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Stop, o.Out = e.stdin, e.stdout
			return lab.RunClients(c.Context(), o)
		},
	}
	c.Flags().StringArrayVar(&o.Targets, "target", nil, "`ADDRESS` and port of an echo server, several in turn")
	c.Flags().IntVar(&o.Count, "count", 1, "`N` connections")
	// The flag was added above.
	_ = c.MarkFlagRequired("target")
	return c
}
