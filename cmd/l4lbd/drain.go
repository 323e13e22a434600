package main

import (
	"github.com/spf13/cobra"
)

func newDrainCommand(*env) *cobra.Command {
	var gw gateway
	var service string
	c := &cobra.Command{
		Use:   "drain INSTANCE [--service NAME]",
		Short: "Take a backend out of the running gateway gracefully",
		Long: "Take a backend out of the running gateway gracefully: it gets no new connections, and keeps\n" +
			"those it has until the drain timeout of its services. It stays out until undrain, also\n" +
			"over a restart of the gateway.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			return client.Drain(c.Context(), args[0], service)
		},
	}
	gw.register(c)
	c.Flags().StringVar(&service, "service", "", "`NAME` of the backend service; default is all that have the instance")
	return c
}
