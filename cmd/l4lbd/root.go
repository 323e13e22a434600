package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"l4lb/pkg/config"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or bad configuration
)

// usageError is a command line or a file that is not what it should be.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs one command line and returns its exit status.
func run(ctx context.Context, e *env, args ...string) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	return e.fail(command, err)
}

// fail prints an error and returns the status it stands for.
func (e *env) fail(command *cobra.Command, err error) int {
	var wrong config.Errors
	if errors.As(err, &wrong) {
		fmt.Fprintln(e.stderr, wrong)
		return exitUsage
	}
	fmt.Fprintf(e.stderr, "l4lbd: %v\n", err)
	if !e.ran {
		fmt.Fprintf(e.stderr, "See %s --help.\n", command.CommandPath())
		return exitUsage
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// newRootCommand builds the whole command tree.
func newRootCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "l4lbd",
		Short: "A Layer-4 passthrough load balancer for Linux gateways",
		Long: "A Layer-4 passthrough load balancer for Linux gateways: an XDP program that hands\n" +
			"packets to health-checked backends, and the daemon that tells it which.\n\n" +
			"Exit status: 0 done, 1 failed, 2 bad usage or bad configuration.",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name a command: see l4lbd --help")
		},
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.AddCommand(
		newRunCommand(e),
		newValidateCommand(e),
		newExplainCommand(e),
		newStatusCommand(e),
		newServicesCommand(e),
		newBackendsCommand(e), newFlowsCommand(e),
		newZonesCommand(e),
		newDrainCommand(e),
		newUndrainCommand(e),
		newDoctorCommand(e),
		newCaptureCommand(e),
		newReplayCommand(e),
		newDecapCommand(e),
		newBenchCommand(e),
		newLabCommand(e),
		newManCommand(e),
		newVersionCommand(e),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	e.mark(root)
	return root
}

// mark makes every command note that its own code runs.
func (e *env) mark(c *cobra.Command) {
	if inner := c.RunE; inner != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			e.ran = true
			return inner(c, args)
		}
	}
	for _, sub := range c.Commands() {
		e.mark(sub)
	}
}

// configFlag adds the flag that names the configuration file.
func configFlag(c *cobra.Command, path *string, required bool) {
	c.Flags().StringVar(path, "config", "", "configuration `FILE`")
	if required {
		// The flag was added on the line above.
		_ = c.MarkFlagRequired("config")
	}
	_ = c.MarkFlagFilename("config", "yaml", "yml")
}

// loadConfig reads a configuration. One that cannot be read is bad usage.
func loadConfig(path string) (*config.Document, error) {
	doc, err := config.Load(path)
	return doc, asUsage(err)
}

// asUsage marks errors of reading a file that the command line names.
func asUsage(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return usageError{err}
	}
	return err
}
