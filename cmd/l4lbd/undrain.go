package main

import (
	"github.com/spf13/cobra"
)

func newUndrainCommand(*env) *cobra.Command {
	var gw gateway
	var service string
	c := &cobra.Command{
		Use:   "undrain INSTANCE [--service NAME]",
		Short: "Take back a drain",
		Long: "Take back a drain: the backend gets new connections again. Without --service also drains of\n" +
			"single services end.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			return client.Undrain(c.Context(), args[0], service)
		},
	}
	gw.register(c)
	c.Flags().StringVar(&service, "service", "", "`NAME` of the backend service; default is all that have the instance")
	return c
}
