package main

import (
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"l4lb/pkg/decap"
	"l4lb/pkg/lb"
)

// decapStatus is what `decap status` prints as JSON.
type decapStatus struct {
	Interface string         `json:"interface"`
	XDPMode   lb.XDPMode     `json:"xdpMode"`
	Gateways  []netip.Prefix `json:"gateways"`
	Addresses []netip.Prefix `json:"addresses"`
	VIPs      []netip.Prefix `json:"vips"` // empty: all
	Outcomes  []decapOutcome `json:"outcomes"`
}

type decapOutcome struct {
	Name   string `json:"name"`
	Frames uint64 `json:"frames"`
}

func newDecapStatusCommand(e *env) *cobra.Command {
	var iface string
	var o output
	c := &cobra.Command{
		Use:   "status --interface NAME",
		Short: "Show what a backend's decap accepts and has unwrapped",
		Long:  "Show what the decap that runs on an interface accepts, and its counters. They are read from\nthe kernel: needs root.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := decap.Inspect(iface)
			if err != nil {
				return err
			}
			v := newDecapStatus(s)
			return o.print(e.stdout, v, func(t *table) { showDecap(t, v) })
		},
	}
	c.Flags().StringVar(&iface, "interface", "", "`NAME` of the interface")
	// The flag was added on the line above.
	_ = c.MarkFlagRequired("interface")
	o.register(c)
	return c
}

func newDecapStatus(s decap.Status) decapStatus {
	list := func(ranges []netip.Prefix) []netip.Prefix { return append([]netip.Prefix{}, ranges...) }
	v := decapStatus{
		Interface: s.Interface, XDPMode: s.Mode,
		Gateways: list(s.Gateways), Addresses: list(s.Addresses), VIPs: list(s.VIPs),
	}
	for _, name := range decap.CountNames() {
		v.Outcomes = append(v.Outcomes, decapOutcome{name, s.Counts[name]})
	}
	return v
}

func showDecap(t *table, s decapStatus) {
	t.row("INTERFACE", "MODE", "GATEWAYS", "ADDRESSES", "VIPS")
	t.row(s.Interface, s.XDPMode, joinRanges(s.Gateways), joinRanges(s.Addresses), or(joinRanges(s.VIPs), "all"))
	t.line("")
	t.row("OUTCOME", "FRAMES")
	for _, o := range s.Outcomes {
		t.row(o.Name, o.Frames)
	}
}

func joinRanges(ranges []netip.Prefix) string {
	list := make([]string, len(ranges))
	for i, p := range ranges {
		list[i] = p.String()
	}
	return strings.Join(list, ",")
}
