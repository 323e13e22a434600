package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"l4lb/pkg/daemon"
)

func newRunCommand(e *env) *cobra.Command {
	var o daemon.Options
	logFormat := choice{value: "text", allowed: []string{"text", "json"}}
	c := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the gateway",
		Long: "Run the gateway until SIGTERM or SIGINT, which detach the data plane. SIGHUP reads the\n" +
			"configuration again; a file with mistakes changes nothing and is logged. A process that\n" +
			"is killed leaves the data plane forwarding, and the next one adopts it.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Logger, o.Version = newLogger(e.stderr, logFormat.value), version
			return runDaemon(c.Context(), o)
		},
	}
	configFlag(c, &o.ConfigPath, true)
	c.Flags().Var(&logFormat, "log-format", "`FORMAT` of the log on standard error: text or json")
	c.Flags().BoolVar(&o.DiscardState, "discard-state", false, "forget the flows and programs that an earlier process left")
	c.Flags().BoolVar(&o.KeepDatapath, "keep-datapath", false, "leave the data plane forwarding at the end")
	return c
}

func newLogger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// runDaemon ties the daemon to the process's signals.
func runDaemon(ctx context.Context, o daemon.Options) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	defer signal.Stop(hangups)
	reload := make(chan struct{}, 1)
	o.Reload = reload
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			select {
			case reload <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	d, err := daemon.New(o)
	var refused daemon.ConfigError
	if errors.As(err, &refused) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return d.Run(ctx)
}
