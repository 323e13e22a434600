package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"l4lb/pkg/capture"
	"l4lb/pkg/daemon"
)

// captureFlags are those of `capture`.
type captureFlags struct {
	gateway     gateway
	filter, out string
	o           capture.Options
}

func newCaptureCommand(e *env) *cobra.Command {
	var f captureFlags
	c := &cobra.Command{
		Use:   "capture [--filter FILTER] [--out FILE]",
		Short: "Capture the running gateway's packets as they arrive and as they leave, each with its fate",
		Long: "Capture the running gateway's packets as they arrive and as they leave, each with its verdict,\n" +
			"reason, rule, backend and zone: tcpdump does not see what XDP has taken. Until SIGINT or\n" +
			"SIGTERM, or as --count and --duration say. Needs root.\n\n" +
			"With --out it writes pcapng, the fate of each packet as its comment. Without, a line for each packet.\n\n" +
			"A FILTER is made of conditions with and, or, not and parentheses:\n" +
			"  [src|dst] [host|net] ADDRESS[/BITS]   [src|dst] port N   proto NAME|N   tcp udp icmp icmp6 …\n" +
			"  arp ip ip6 fragment   verdict drop|pass|tx|redirect|sent|aborted   reason NAME   flow hit|new|none\n" +
			"  rule NAME   backend INSTANCE   service NAME   zone NAME",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), e) },
	}
	f.gateway.register(c)
	flags := c.Flags()
	flags.StringVar(&f.filter, "filter", "", "only packets that match `FILTER` as they arrive, or by what becomes of them")
	flags.StringVar(&f.out, "out", "", "pcapng `FILE` to write to, - for standard output")
	flags.StringSliceVar(&f.o.Interfaces, "interface", nil, "only packets that arrive on the interface `NAME`; may be repeated")
	flags.IntVar(&f.o.SnapLen, "snaplen", 0, "keep at most `N` bytes of a frame, 0 for all")
	flags.Uint64Var(&f.o.Count, "count", 0, "end after `N` packets, 0 for no end")
	flags.DurationVar(&f.o.Duration, "duration", 0, "end after `TIME`, such as 30s, 0 for no end")
	flags.IntVar(&f.o.MaxRate, "max-rate", 10000, "capture at most `N` packets a second on each CPU, 0 for no bound; what is more is counted")
	return c
}

func (f *captureFlags) run(ctx context.Context, e *env) (err error) {
	if f.o.Filter, err = capture.ParseFilter(f.filter); err != nil {
		return usageError{err}
	}
	if err := f.o.Check(); err != nil {
		return usageError{err}
	}
	client, err := f.gateway.client()
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	f.o.Dir, f.o.Object, f.o.Lend = filepath.Join(daemon.Pins, status.Gateway), status.Object, client.Capture
	var file *os.File
	switch f.out {
	case "":
		f.o.Sink = &capture.Lines{W: e.stdout}
	case "-":
		if isTerminal(e.stdout) {
			return usagef("standard output is a terminal: pipe it into a program, such as tshark -r -, or name a file")
		}
		f.o.Sink = f.file(func() (io.Writer, error) { return e.stdout, nil })
	default:
		f.o.Sink = f.file(func() (_ io.Writer, err error) {
			if file, err = os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
				return nil, usagef("write capture: %w", err)
			}
			return file, nil
		})
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	summary, err := capture.Run(ctx, f.o)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	if summary != nil {
		reportCapture(e.stderr, summary)
	}
	var wrong *capture.FilterError
	if errors.As(err, &wrong) {
		return usageError{err}
	}
	return err
}

func (f *captureFlags) file(open func() (io.Writer, error)) *capture.File {
	return &capture.File{Open: open, SnapLen: f.o.SnapLen, Filter: f.o.Filter.String(), Application: "l4lbd " + version}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// reportCapture says what was captured, and what was not.
func reportCapture(w io.Writer, s *capture.Summary) {
	if s.Ended != "" {
		fmt.Fprintf(w, "l4lbd: %s: the capture ends\n", s.Ended)
	}
	fmt.Fprintf(w, "l4lbd: %d packets captured in %v\n", s.Captured, s.End.Sub(s.Start).Round(time.Millisecond))
	for _, i := range s.Interfaces {
		fmt.Fprintf(w, "l4lbd: %s: %d packets arrived, %d match; of these %d beyond --max-rate, %d lost to a full buffer\n",
			i.Name, i.Seen, i.Matched, i.Skipped, i.Lost)
	}
}
