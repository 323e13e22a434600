package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
)

func newBackendsCommand(e *env) *cobra.Command {
	var gw gateway
	var o output
	var service string
	c := &cobra.Command{
		Use:   "backends [--service NAME]",
		Short: "Show the backends of the running gateway, their health and why",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			list, err := client.Backends(c.Context(), service)
			if err != nil {
				return err
			}
			return o.print(e.stdout, list, func(t *table) { showBackends(t, list.Backends, time.Now()) })
		},
	}
	gw.register(c)
	c.Flags().StringVar(&service, "service", "", "`NAME` of the backend service; default is all")
	o.register(c)
	return c
}

func showBackends(t *table, list []admin.Backend, now time.Time) {
	t.row("SERVICE", "BACKEND", "ADDRESS", "ZONE", "STATE", "FOR", "ELIGIBLE", "WEIGHT", "LINK", "TUNNEL", "DRAIN", "FLOWS", "LAST CHECK", "SUSPECT")
	for _, b := range list {
		instance := b.Instance
		if b.Failover {
			instance += " (failover)"
		}
		since := ""
		if b.Since != nil {
			since = age(now, *b.Since)
		}
		t.row(b.Service, instance, b.Address, b.Zone, b.State, since, yes(b.Eligible),
			or(b.Weight, b.WeightError), link(b.Link), tunnel(b.Tunnel), drain(b, now), b.Traffic.Flows, check(b.LastCheck),
			suspect(b.Suspicions))
	}
}

func suspect(list []admin.Suspicion) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Why)
	}
	return strings.Join(out, "; ")
}

func link(l admin.Link) string {
	if !l.Usable {
		return l.State
	}
	return l.MAC + " " + l.Interface
}

func tunnel(t *admin.Tunnel) string {
	switch {
	case t == nil:
		return ""
	case t.Problem != "":
		return t.Kind + ": " + t.Problem
	case t.MTU == 0:
		return t.Kind + " to " + t.Destination
	}
	return fmt.Sprintf("%s to %s, MTU %d after %d bytes of headers", t.Kind, t.Destination, t.MTU, t.Overhead)
}

func drain(b admin.Backend, now time.Time) string {
	if b.DrainEnd == nil {
		return ""
	}
	what := "ends in "
	if b.Leaving {
		what = "leaves in "
	}
	if left := b.DrainEnd.Sub(now); left > 0 {
		return what + left.Round(time.Second).String()
	}
	return "over"
}

func check(c *admin.Check) string {
	switch {
	case c == nil:
		return ""
	case c.Text == "":
		return c.Detail
	}
	return c.Detail + ": " + c.Text
}
