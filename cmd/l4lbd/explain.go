package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"l4lb/pkg/controller"
	"l4lb/pkg/selector"
)

// explainFlags are those of `explain`.
type explainFlags struct {
	gateway                 gateway
	client, service, health string
	output                  output
}

func newExplainCommand(e *env) *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [--config FILE] --client IP --service NAME [--health FILE]",
		Short: "Say which backends a client may use, and why",
		Long: "Say which backends new connections of a client to a service may use, and why. With --health\n" +
			"the answer is worked out from the configuration and that file alone; without, the running\n" +
			"gateway is asked. With --config it warns where the service is the next hop of routes and\n" +
			"the two directions of a connection may meet different backends.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			sets, err := f.explain(c.Context(), e)
			if err != nil {
				return err
			}
			out := explanation{Explanation: sets}
			if out.Warnings, err = f.asymmetries(); err != nil {
				return err
			}
			for _, w := range out.Warnings {
				fmt.Fprintln(e.stderr, "warning:", w)
			}
			return f.output.print(e.stdout, out, func(t *table) { showExplanation(t, sets) })
		},
	}
	f.gateway.register(c)
	c.Flags().StringVar(&f.client, "client", "", "`IP` address of the client")
	c.Flags().StringVar(&f.service, "service", "", "`NAME` of the backend service")
	c.Flags().StringVar(&f.health, "health", "", "health `FILE`: work offline with these states; who is not named is HEALTHY")
	// The flags were added above.
	_ = c.MarkFlagRequired("client")
	_ = c.MarkFlagRequired("service")
	f.output.register(c)
	return c
}

func (f *explainFlags) explain(ctx context.Context, e *env) (selector.Explanation, error) {
	client, err := netip.ParseAddr(f.client)
	if err != nil {
		return selector.Explanation{}, usagef("--client %q is not an IP address", f.client)
	}
	if f.health == "" {
		gw, err := f.gateway.client()
		if err != nil {
			return selector.Explanation{}, err
		}
		return gw.Explain(ctx, f.service, client)
	}
	if f.gateway.config == "" {
		return selector.Explanation{}, usagef("--health needs --config")
	}
	doc, err := loadConfig(f.gateway.config)
	if err != nil {
		return selector.Explanation{}, err
	}
	health, err := readHealth(f.health)
	if err != nil {
		return selector.Explanation{}, err
	}
	e.warnStrangers(f.health, health, doc.Config)
	return controller.ExplainOffline(doc.Config, f.service, client, health)
}

// explanation is what is printed: with what the configuration has to say.
type explanation struct {
	selector.Explanation
	Warnings []string `json:"warnings,omitempty"`
}

// asymmetries are those of the configuration that concern the service.
func (f *explainFlags) asymmetries() ([]string, error) {
	if f.gateway.config == "" {
		return nil, nil
	}
	doc, err := loadConfig(f.gateway.config)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range doc.Asymmetries {
		if slices.Contains(a.Services, f.service) {
			out = append(out, a.Error.Error())
		}
	}
	return out, nil
}

func showExplanation(t *table, x selector.Explanation) {
	compatible := "zonal affinity can apply"
	if !x.ClientCompatible {
		compatible = "not compatible with zonal affinity"
	}
	t.row("client", x.Client+", zone "+or(x.ClientZone, "unknown")+", "+compatible)
	t.row("service", x.Service)
	t.row("eligible", string(x.OriginalEligible.Kind)+": "+names(x.OriginalEligible.Backends))
	t.row("zonal test", names(x.ZonalTest))
	t.row("in the zone", names(x.ZonalMatched))
	t.row("of them eligible", names(x.Intersection))
	t.row("ratio", x.Ratio)
	t.row("new connections go to", names(x.ModifiedEligible))
	t.row("because", string(x.Reason)+": "+reasonText(x.Reason))
}

// names lists backends with their number.
func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return "(" + strconv.Itoa(len(list)) + ") " + strings.Join(list, ", ")
}

// reasonText is a reason in words.
func reasonText(r selector.Reason) string {
	switch r {
	case selector.Dropped:
		return "no backend is eligible, new connections are dropped"
	case selector.AffinityDisabled:
		return "the service has no zonal affinity"
	case selector.ClientNotCompatible:
		return "the client comes over VPN, from another region or from no known zone"
	case selector.NoZonalMatch:
		return "the service has no backend in the client's zone"
	case selector.StayedInZone:
		return "enough backends of the client's zone are eligible"
	case selector.StayedInZoneUnhealthy:
		return "none of the client's zone is eligible, and traffic must stay within the zone"
	case selector.Spilled:
		return "too few backends of the client's zone are eligible"
	}
	return ""
}
