package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
)

// shownProblems is how many problems the table has room for.
const shownProblems = 20

func newStatusCommand(e *env) *cobra.Command {
	var gw gateway
	var o output
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the running gateway and what is not well",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := gw.client()
			if err != nil {
				return err
			}
			s, err := client.Status(c.Context())
			if err != nil {
				return err
			}
			return o.print(e.stdout, s, func(t *table) { showStatus(t, s, time.Now()) })
		},
	}
	gw.register(c)
	o.register(c)
	return c
}

func showStatus(t *table, s admin.Status, now time.Time) {
	state := "forwarding"
	if !s.Ready {
		state = "not ready"
	}
	t.row("gateway", fmt.Sprintf("%s, l4lbd %s, pid %d, up %s", s.Gateway, s.Version, s.PID, age(now, s.StartedAt)))
	t.row("state", state)
	t.row("configuration", fmt.Sprintf("%s, in force for %s", s.Config.File, age(now, s.Config.InForceSince)))
	for _, i := range s.Interfaces {
		attached := "attached"
		if !i.Attached {
			attached = "not attached"
		}
		t.row("interface", fmt.Sprintf("%s, %s, %s", i.Name, i.XDPMode, attached))
	}
	t.line("")
	showServices(t, s.Services)
	t.line("")
	showRules(t, s.ForwardingRules)
	t.line("")
	showAdmissions(t, s.ForwardingRules)
	if len(s.Routes) > 0 {
		showRoutes(t, s.Routes)
		t.line("")
	}
	if len(s.Problems) == 0 {
		t.line("All is well.")
		return
	}
	t.line("Not well:")
	for _, p := range s.Problems[:min(len(s.Problems), shownProblems)] {
		t.line("- " + p)
	}
	if more := len(s.Problems) - shownProblems; more > 0 {
		t.line(fmt.Sprintf("- and %d more: see l4lbd backends", more))
	}
}

func showRules(t *table, list []admin.ForwardingRule) {
	t.row("RULE", "ADDRESS", "PROTOCOL", "PORTS", "SERVICE", "PACKETS", "BYTES", "FLOWS")
	for _, r := range list {
		t.row(r.Name, r.Address, r.Protocol, ports(r), r.Service, r.Traffic.Packets, r.Traffic.Bytes, r.Traffic.Flows)
	}
}

// showAdmissions lists the rules that ask something of new flows, if any do.
func showAdmissions(t *table, list []admin.ForwardingRule) {
	list = slices.DeleteFunc(slices.Clone(list), func(r admin.ForwardingRule) bool { return r.Admission == nil })
	if len(list) == 0 {
		return
	}
	t.row("RULE", "SOURCES", "FLOWS/S", "FLOWS/S AND SOURCE", "NOT ALLOWED", "LIMITED", "SOURCE LIMITED")
	for _, r := range list {
		a := r.Admission
		sources := strings.Join(a.AllowedSourceRanges, ",")
		switch n := len(a.AllowedSourceRanges); {
		case n == 0:
			sources = "all"
		case n > 3:
			sources = fmt.Sprintf("%d ranges", n)
		}
		perSource := rate(a.SourceFlows)
		if a.SourcePrefixLength > 0 {
			perSource += fmt.Sprintf(", of each /%d", a.SourcePrefixLength)
		}
		t.row(r.Name, sources, rate(a.Flows), perSource,
			a.Refused.SourceNotAllowed, a.Refused.RateLimited, a.Refused.SourceRateLimited)
	}
	t.line("")
}

func rate(r admin.FlowRate) string {
	if r.PerSecond == 0 {
		return "any"
	}
	return fmt.Sprintf("%d, burst %d", r.PerSecond, r.Burst)
}

func showRoutes(t *table, list []admin.Route) {
	t.row("ROUTE", "DESTINATION", "PRIORITY", "FROM", "NEXT HOP", "SERVICE", "IN FORCE")
	for _, r := range list {
		from := strings.Join(append(slices.Clone(r.SourceRanges), r.Interfaces...), ",")
		t.row(r.Name, r.DestRange, r.Priority, or(from, "anywhere"), r.NextHop, r.Service, yes(r.InForce))
	}
}

func ports(r admin.ForwardingRule) string {
	if r.AllPorts || len(r.Ports) == 0 {
		return "all"
	}
	text := make([]string, len(r.Ports))
	for i, p := range r.Ports {
		text[i] = strconv.Itoa(int(p))
	}
	return strings.Join(text, ",")
}
