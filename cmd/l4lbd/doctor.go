package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"l4lb/pkg/doctor"
	"l4lb/pkg/lb"
)

func newDoctorCommand(e *env) *cobra.Command {
	var o output
	var path, gateway string
	var backend, router bool
	var vips []string
	var ports []uint
	tunnel := choice{allowed: []string{string(lb.ForwardL2), string(lb.ForwardIPIP), string(lb.ForwardGUE), string(lb.ForwardGENEVE)}}
	c := &cobra.Command{
		Use:   "doctor {--config FILE | --backend --vip IP...}",
		Short: "Say what is wrong with this host, and the commands that mend it",
		Long: "Examine this host as the gateway of a configuration or, with --backend, as a backend, and\n" +
			"say what is wrong, why it matters and which commands mend it. Run it as root, with or\n" +
			"without a running daemon. Nothing is changed. The exit status is 1 when there is a problem.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var report *doctor.Report
			if backend {
				options, err := backendOptions(vips, router, gateway, ports, tunnel.value)
				if err != nil {
					return err
				}
				if report, err = doctor.Backend(c.Context(), options); err != nil {
					return err
				}
			} else {
				if path == "" {
					return usagef("name the gateway's configuration with --config, or use --backend on a backend")
				}
				doc, err := loadConfig(path)
				if err != nil {
					return err
				}
				if report, err = doctor.Gateway(c.Context(), doctor.Options{Config: doc.Config, ConfigPath: path}); err != nil {
					return err
				}
			}
			return e.showReport(&o, report)
		},
	}
	configFlag(c, &path, false)
	f := c.Flags()
	f.BoolVar(&backend, "backend", false, "examine this host as a backend")
	f.StringSliceVar(&vips, "vip", nil, "with --backend, the VIP `IP` that it serves; may be repeated")
	f.StringVar(&gateway, "gateway", "", "with --backend, the address `IP` of the gateway on its segment")
	f.UintSliceVar(&ports, "port", nil, "with --backend, a `PORT` that its service listens on; may be repeated")
	f.BoolVar(&router, "router", false, "with --backend, it passes packets on: the next hop of a route leads to it")
	f.Var(&tunnel, "tunnel", "with --backend, the `KIND` of tunnel that packets come by: L2 for none, IPIP, GUE or GENEVE")
	c.MarkFlagsMutuallyExclusive("config", "backend")
	o.register(c)
	return c
}

func backendOptions(vips []string, router bool, gateway string, ports []uint, tunnel string) (o doctor.BackendOptions, err error) {
	o.Tunnel, o.Router = lb.Forwarding(tunnel), router
	if len(vips) == 0 && !router {
		return o, usagef("name each VIP of the backend with --vip, or use --router for the next hop of a route")
	}
	for _, text := range vips {
		vip, err := netip.ParseAddr(text)
		if err != nil {
			return o, usagef("--vip %q is no IP address", text)
		}
		o.VIPs = append(o.VIPs, vip.Unmap())
	}
	if gateway != "" {
		if o.Gateway, err = netip.ParseAddr(gateway); err != nil {
			return o, usagef("--gateway %q is no IP address", gateway)
		}
		o.Gateway = o.Gateway.Unmap()
	}
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return o, usagef("--port %d is not between 1 and 65535", p)
		}
		o.Ports = append(o.Ports, uint16(p))
	}
	return o, nil
}

// showReport prints what was found. A problem is an error, so that scripts see
// it.
func (e *env) showReport(o *output, r *doctor.Report) error {
	err := o.print(e.stdout, r, func(t *table) { showFindings(t, r) })
	if n := r.Count(doctor.Problem); err == nil && n > 0 {
		err = fmt.Errorf("%s found", count(n, "problem"))
	}
	return err
}

// showFindings lists all findings and then, for those that are no good news, why
// and what to do.
func showFindings(t *table, r *doctor.Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		t.row(f.Status, f.Check, or(f.Subject, r.Side), f.What)
	}
	for _, status := range []doctor.Status{doctor.Problem, doctor.Warning, doctor.Note} {
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Status == status {
				showFinding(t, r.Side, f)
			}
		}
	}
	t.line("")
	parts := []string{}
	for _, status := range []doctor.Status{doctor.Problem, doctor.Warning, doctor.Note} {
		parts = append(parts, count(r.Count(status), string(status)))
	}
	t.line(strings.Join(parts, ", ") + ".")
}

func showFinding(t *table, side string, f *doctor.Finding) {
	t.line("")
	t.line(fmt.Sprintf("%s: %s: %s", strings.ToUpper(string(f.Status)), or(f.Subject, side), f.What))
	if f.Why != "" {
		t.line("  " + f.Why)
	}
	if len(f.Mend) > 0 {
		t.line(fmt.Sprintf("  on %s:", or(f.On, "this host")))
	}
	for _, command := range f.Mend {
		t.line("    " + command)
	}
}

// count is "1 problem" or "2 problems".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
