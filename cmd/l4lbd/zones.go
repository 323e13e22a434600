package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
)

func newZonesCommand(e *env) *cobra.Command {
	var gw gateway
	var o output
	c := &cobra.Command{
		Use:   "zones",
		Short: "Show the zones of the running gateway and the traffic between them",
		Long: "Show the zones of the running gateway and the traffic between them. A row is the zone of the\n" +
			"clients; its last columns are the packets and bytes that went to backends of each zone.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			list, err := client.Zones(c.Context())
			if err != nil {
				return err
			}
			return o.print(e.stdout, list, func(t *table) { showZones(t, list.Zones) })
		},
	}
	gw.register(c)
	o.register(c)
	return c
}

func showZones(t *table, list []admin.Zone) {
	head := []any{"ZONE", "CLIENT RANGES", "BACKENDS", "HEALTHY"}
	for _, z := range list {
		head = append(head, "TO "+strings.ToUpper(z.Name))
	}
	t.row(head...)
	for _, z := range list {
		row := []any{z.Name, strings.Join(z.ClientRanges, ","), z.Backends, z.Healthy}
		for _, to := range z.To {
			row = append(row, fmt.Sprintf("%d (%d B)", to.Packets, to.Bytes))
		}
		t.row(row...)
	}
}
