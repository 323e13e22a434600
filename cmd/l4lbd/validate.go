package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newValidateCommand(e *env) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration file",
		Long: "Check a configuration file without touching anything. Every mistake is printed on a line\n" +
			"of its own, FILE:LINE:COLUMN: MESSAGE, and the exit status is 2. A file without mistakes\n" +
			"prints nothing, unless its routes send the two directions of connections through\n" +
			"different backends: that is a warning, and the exit status is 0.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			doc, err := loadConfig(path)
			if err != nil {
				return err
			}
			for _, a := range doc.Asymmetries {
				fmt.Fprintf(e.stderr, "%s:%d:%d: warning: %s\n", a.File, a.Line, a.Col, a.Msg)
			}
			return nil
		},
	}
	configFlag(c, &path, true)
	return c
}
