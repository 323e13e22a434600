package main

import (
	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
)

func newServicesCommand(e *env) *cobra.Command {
	var gw gateway
	var o output
	c := &cobra.Command{
		Use:   "services",
		Short: "Show the backend services of the running gateway",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			list, err := client.Services(c.Context())
			if err != nil {
				return err
			}
			return o.print(e.stdout, list, func(t *table) { showServices(t, list.Services) })
		},
	}
	gw.register(c)
	o.register(c)
	return c
}

func showServices(t *table, list []admin.Service) {
	t.row("SERVICE", "FAMILY", "SET", "POOL", "BACKENDS", "HEALTHY", "UNHEALTHY", "UNKNOWN", "DRAINING", "ELIGIBLE")
	for _, s := range list {
		t.row(s.Name, s.Family, s.Kind, s.Pool, s.Backends, s.Healthy, s.Unhealthy, s.Unknown, s.Draining, s.Eligible)
	}
}
