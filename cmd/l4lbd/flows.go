package main

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
	"l4lb/pkg/conntrack"
)

// flowFlags are what flows are filtered by.
type flowFlags struct {
	client, vip, backend, service, zone, state string
	minIdle                                    time.Duration
	limit                                      int
}

func newFlowsCommand(e *env) *cobra.Command {
	var gw gateway
	var o output
	var flags flowFlags
	c := &cobra.Command{
		Use:   "flows [--client RANGE] [--backend INSTANCE] …",
		Short: "Show the tracked flows of the running gateway, and how many each backend has",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := flags.filter()
			if err != nil {
				return usageError{err}
			}
			client, err := gw.client()
			if err != nil {
				return err
			}
			report, err := client.Flows(c.Context(), filter)
			if err != nil {
				return err
			}
			return o.print(e.stdout, report, func(t *table) { showFlows(t, report) })
		},
	}
	gw.register(c)
	flags.register(c)
	o.register(c)
	return c
}

func (f *flowFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.client, "client", "", "only flows of clients in `RANGE`, an address or a network")
	c.Flags().StringVar(&f.vip, "vip", "", "only flows to the VIP `IP`")
	c.Flags().StringVar(&f.backend, "backend", "", "only flows of the backend `INSTANCE`")
	c.Flags().StringVar(&f.service, "service", "", "only flows of the backend service `NAME`")
	c.Flags().StringVar(&f.zone, "zone", "", "only flows of clients in the zone `NAME`")
	c.Flags().StringVar(&f.state, "state", "", "only flows in `STATE`: PROBATION, one packet seen, or CONFIRMED")
	c.Flags().DurationVar(&f.minIdle, "min-idle", 0, "only flows without a packet for `TIME`, such as 5m")
	c.Flags().IntVar(&f.limit, "limit", 100, "list at most `N` flows, 0 for all; all are counted")
}

func (f *flowFlags) filter() (out conntrack.Filter, err error) {
	out = conntrack.Filter{
		Backend: f.backend, Service: f.service, Zone: f.zone, MinIdle: f.minIdle, Limit: f.limit,
	}
	if f.client != "" {
		if out.Client, err = admin.ParseClients(f.client); err != nil {
			return out, err
		}
	}
	if f.vip != "" {
		if out.VIP, err = netip.ParseAddr(f.vip); err != nil {
			return out, err
		}
	}
	if f.state != "" {
		out.State, err = conntrack.ParseState(strings.ToUpper(f.state))
	}
	return out, err
}

func showFlows(t *table, r conntrack.Report) {
	t.row("CLIENT", "VIP", "PROTOCOL", "RULE", "BACKEND", "ZONES", "STATE", "IDLE", "EXPIRES IN")
	for _, f := range r.Flows {
		t.row(endpoint(f.Client, f.ClientPort), endpoint(f.VIP, f.VIPPort), or(f.Protocol, f.Key), f.ForwardingRule,
			f.Backend, or(f.ClientZone, "none")+" → "+or(f.BackendZone, "none"), f.State,
			time.Duration(f.IdleSec)*time.Second, time.Duration(f.ExpiresSec)*time.Second)
	}
	t.row()
	t.row("BACKEND", "FLOWS")
	backends := slices.SortedFunc(maps.Keys(r.Backends), func(a, b string) int {
		return cmp.Or(r.Backends[b]-r.Backends[a], cmp.Compare(a, b))
	})
	for _, name := range backends {
		t.row(name, r.Backends[name])
	}
	t.row()
	t.row("TOTAL", r.Total)
	t.row("CONFIRMED", r.Confirmed)
}

func endpoint(addr string, port uint16) string {
	if addr == "" || port == 0 {
		return addr
	}
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + strconv.Itoa(int(port))
}
