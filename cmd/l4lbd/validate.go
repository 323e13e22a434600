package main

import "github.com/spf13/cobra"

func newValidateCommand(*env) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration file",
		Long: "Check a configuration file without touching anything. Every mistake is printed on a line\n" +
			"of its own, FILE:LINE:COLUMN: MESSAGE, and the exit status is 2. A file without mistakes\n" +
			"prints nothing.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := loadConfig(path)
			return err
		},
	}
	configFlag(c, &path, true)
	return c
}
