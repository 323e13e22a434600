package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"l4lb/pkg/decap"
	"l4lb/pkg/lb"
)

// decapFlags are those of `decap`.
type decapFlags struct {
	iface                     string
	gateways, vips, addresses []string
	guePort, genevePort       uint16
	mode, logFormat           choice
}

func newDecapCommand(e *env) *cobra.Command {
	f := decapFlags{
		mode:      choice{value: string(lb.XDPNative), allowed: []string{string(lb.XDPNative), string(lb.XDPGeneric)}},
		logFormat: choice{value: "text", allowed: []string{"text", "json"}},
	}
	c := &cobra.Command{
		Use:   "decap --interface NAME --gateway RANGE...",
		Short: "On a backend: unwrap the tunnels of gateways",
		Long: "On a backend without tunnel devices: take packets out of the tunnels that gateways send, until\n" +
			"SIGTERM or SIGINT. IPIP, GUE and GENEVE are understood, over and around IPv4 and IPv6. A tunnel\n" +
			"from anybody else is left to the kernel. The program is attached only while the process lives.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options()
			if err != nil {
				return usageError{err}
			}
			o.Logger = newLogger(e.stderr, f.logFormat.value)
			return runDecap(c.Context(), o)
		},
	}
	c.Flags().StringVar(&f.iface, "interface", "", "`NAME` of the interface that tunnels arrive on")
	c.Flags().StringSliceVar(&f.gateways, "gateway", nil, "`RANGE` of outer sources that may send tunnels; may be repeated")
	c.Flags().StringSliceVar(&f.addresses, "address", nil, "outer destination `IP` that tunnels end at; may be repeated; default is all of the interface's, as they change")
	c.Flags().StringSliceVar(&f.vips, "vip", nil, "`RANGE` of VIPs that inner packets may be for; may be repeated; default is all")
	c.Flags().Uint16Var(&f.guePort, "gue-port", decap.DefaultGUEPort, "UDP `PORT` of GUE; 0 accepts none")
	c.Flags().Uint16Var(&f.genevePort, "geneve-port", decap.DefaultGENEVEPort, "UDP `PORT` of GENEVE; 0 accepts none")
	c.Flags().Var(&f.mode, "xdp-mode", "`MODE` of the program: native, in the driver, or generic, which works anywhere but slowly")
	c.Flags().Var(&f.logFormat, "log-format", "`FORMAT` of the log on standard error: text or json")
	for _, name := range []string{"interface", "gateway"} {
		// The flags were added above.
		_ = c.MarkFlagRequired(name)
	}
	c.AddCommand(newDecapStatusCommand(e))
	return c
}

func (f *decapFlags) options() (o decap.Options, err error) {
	o = decap.Options{Interface: f.iface, Mode: lb.XDPMode(f.mode.value), GUEPort: f.guePort, GENEVEPort: f.genevePort}
	if o.Gateways, err = parseRanges("gateway", f.gateways); err != nil {
		return o, err
	}
	if o.VIPs, err = parseRanges("vip", f.vips); err != nil {
		return o, err
	}
	for _, text := range f.addresses {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return o, fmt.Errorf("--address %s: use an IP address such as 192.0.2.10", text)
		}
		o.Addresses = append(o.Addresses, a)
	}
	return o, o.Validate()
}

// parseRanges reads addresses and networks.
func parseRanges(flag string, list []string) (ranges []netip.Prefix, err error) {
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			ranges = append(ranges, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--%s %s: use an address such as 192.0.2.10 or a network such as 192.0.2.0/24", flag, text)
		}
		ranges = append(ranges, p)
	}
	return ranges, nil
}

// runDecap unwraps until the process is told to end.
func runDecap(ctx context.Context, o decap.Options) (err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	d, err := decap.Open(o)
	if err != nil {
		return err
	}
	o.Logger.Info("unwrapping tunnels", "interface", o.Interface, "xdp_mode", o.Mode, "gateways", o.Gateways, "vips", o.VIPs)
	if len(o.VIPs) == 0 {
		o.Logger.Warn("without --vip a gateway's tunnels may hold packets for any address")
	}
	defer func() {
		counts, countErr := d.Counts()
		if closeErr := d.Close(); err == nil {
			err = closeErr
		}
		if countErr == nil {
			logCounts(o.Logger, o.Interface, counts)
		}
	}()
	return d.Run(ctx)
}

func logCounts(log *slog.Logger, iface string, counts decap.Counts) {
	args := []any{"interface", iface}
	for _, name := range decap.CountNames() {
		args = append(args, name, counts[name])
	}
	log.Info("tunnels are no longer unwrapped", args...)
}
