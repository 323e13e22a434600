package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"l4lb/pkg/encap"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/probe"
)

// maxTrials bounds the probes that run at once.
const maxTrials = 64

// trial is one backend asked at one VIP, and at its own address if that fails.
type trial struct {
	peer   peer
	vip    netip.Addr
	way    lb.Way
	sentTo netip.Addr // where frames for it go: its own address, or its tunnel's end
	check  lb.HealthCheck
	// direct: only the backend's own address is asked, and atVIP is its answer.
	direct bool
	// known: the daemon told atVIP.
	known bool
	// atVIP and own are the results; own is the zero Result where it was not
	// asked for.
	atVIP, own healthcheck.Result
}

// target is what is probed: the VIP by way of the backend, or the backend's own
// address.
func (t *trial) target(own bool) healthcheck.Target {
	if own || t.direct {
		return healthcheck.Target{Addr: t.peer.addr, Check: t.check}
	}
	return healthcheck.Target{Addr: t.vip, Via: healthcheck.Via{Backend: t.peer.addr, Way: t.way}, Check: t.check}
}

// checkServices compares what a backend answers at a VIP, by the forwarding of
// the VIP's traffic, with what it answers at its own address.
func checkServices(ctx context.Context, g *gateway) ([]Finding, error) {
	trials, notes := g.trials()
	out := notes
	if slices.ContainsFunc(trials, func(t *trial) bool { return !t.known }) {
		found, err := g.tryVIPs(ctx, trials)
		if err != nil {
			return out, err
		}
		out = append(out, found...)
		if found != nil {
			trials = slices.DeleteFunc(trials, func(t *trial) bool { return !t.known })
		}
	}
	tryAll(ctx, trials, &healthcheck.Dialer{}, func(t *trial) *healthcheck.Result {
		if t.direct || t.atVIP.OK() || t.atVIP.Detail == healthcheck.DetailUnknown {
			return nil
		}
		return &t.own
	})
	seen := map[[2]netip.Addr]bool{}
	for _, t := range trials {
		key := [2]netip.Addr{t.peer.addr, t.vip}
		if f := t.finding(); f.Status != OK && !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return unlessFound(out, well("", "%d answers at VIPs", len(trials))), nil
}

// trials lists what is to be asked. Backends that nothing reaches and VIPs that
// this host has were reported.
func (g *gateway) trials() (out []*trial, notes []Finding) {
	type key struct {
		backend, vip netip.Addr
		check        healthcheck.Target
	}
	seen := map[key]bool{}
	for i := range g.Config.Services {
		s := &g.Config.Services[i]
		if g.ownOnly(s) {
			directs, found := g.directTrials(s)
			out, notes = append(out, directs...), append(notes, found...)
			continue
		}
		check, ok := g.question(s)
		if !ok {
			notes = append(notes, Finding{
				Subject: s.Name, Status: Note, What: "the service has nothing that can be asked: no health check and no TCP port",
			})
			continue
		}
		for _, vip := range g.vipsOf(s.Name) {
			for _, b := range g.Config.Backends(s) {
				t := &trial{peer: peer{b.Instance, b.Addr.Unmap()}, vip: vip, way: s.Way(b), sentTo: b.SentTo(s.Forwarding).Unmap(), check: check}
				k := key{t.peer.addr, vip, t.target(false).Key()}
				if _, reached := g.ways[t.sentTo]; !reached || seen[k] || vip.Is4() != t.peer.addr.Is4() || g.onHost[vip] {
					continue
				}
				seen[k] = true
				if s.Probe == lb.ProbeVIP {
					g.fromDaemon(t, s.Name)
				}
				out = append(out, t)
			}
		}
	}
	return out, notes
}

// question is what a service's backends are asked: their health check, or a
// connection to a port of their traffic where that goes elsewhere.
func (g *gateway) question(s *lb.Service) (lb.HealthCheck, bool) {
	check := g.Config.HealthCheck(s.HealthCheck)
	if check != nil && s.Probe == lb.ProbeVIP {
		return *check, true
	}
	for i := range g.Config.Rules {
		r := &g.Config.Rules[i]
		if r.Service == s.Name && r.Protocol == lb.RuleTCP && len(r.Ports) > 0 {
			out := lb.HealthCheck{Type: lb.CheckTCP, Port: r.Ports[0], CheckInterval: tryTimeout, Timeout: tryTimeout}
			return out, true
		}
	}
	return lb.HealthCheck{}, false
}

func (g *gateway) vipsOf(service string) []netip.Addr {
	var out []netip.Addr
	for i := range g.Config.Rules {
		if r := &g.Config.Rules[i]; r.Service == service && !slices.Contains(out, r.Address.Addr()) {
			out = append(out, r.Address.Addr())
		}
	}
	return out
}

// fromDaemon takes the last result over that a running daemon has.
func (g *gateway) fromDaemon(t *trial, service string) {
	target := t.target(false).AddrPort().String()
	for i := range g.rows {
		row := &g.rows[i]
		if row.Service != service || row.Instance != t.peer.instance || row.Address != t.peer.addr.String() {
			continue
		}
		for _, c := range row.Checks {
			if c.Target == target && c.Last != nil {
				t.known, t.atVIP = true, healthcheck.Result{Detail: healthcheck.Detail(c.Last.Detail), Text: c.Last.Text}
			}
		}
	}
}

// tryVIPs makes the probes that no daemon made, by a way of its own that is gone
// afterwards. What it returns says why there are no results.
func (g *gateway) tryVIPs(ctx context.Context, trials []*trial) ([]Finding, error) {
	// One doctor at a time: the second would remove the first one's way. An
	// abstract address is the network namespace's own.
	lock, err := net.Listen("unix", "@l4lb-doctor")
	if errors.Is(err, unix.EADDRINUSE) {
		return []Finding{{Status: Warning, What: "another doctor is asking the backends just now", Why: "one at a time can: try again"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer lock.Close()
	output, err := probe.Open(probe.Options{Gateway: "doctor"})
	if err != nil {
		return nil, err
	}
	var paths []probe.Path
	for _, t := range trials {
		if t.known || t.direct {
			continue
		}
		if p := g.probePath(t); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	if err := output.SetPaths(paths); err != nil {
		return nil, errors.Join(err, output.Close())
	}
	tryAll(ctx, trials, &healthcheck.Dialer{Route: output.Route}, func(t *trial) *healthcheck.Result {
		if t.known {
			return nil
		}
		return &t.atVIP
	})
	return nil, output.Close()
}

// probePath is the way that the backend's traffic takes. A tunnel that cannot be
// made leaves it unusable.
func (g *gateway) probePath(t *trial) probe.Path {
	w := g.ways[t.sentTo]
	p := probe.Path{
		Backend: t.peer.addr, Way: t.way, IfIndex: w.link.Index, DMAC: w.mac,
		SMAC: [6]byte(w.link.HardwareAddr), MTU: w.mtu, Usable: true,
	}
	if t.way.Forwarding.Tunnelled() {
		tunnel := encap.Tunnel{
			Kind: t.way.Forwarding, Source: encap.Source(g.Config.Gateway.TunnelSources, t.way, w.source), Dest: t.way.End,
			Port: t.way.Port, VNI: t.way.VNI, LinkMTU: w.mtu,
		}
		var err error
		p.Tunnel, err = tunnel.Header()
		p.Usable = err == nil
	}
	return p
}

// tryAll makes a probe for each trial that has a place for its result.
func tryAll(ctx context.Context, trials []*trial, d *healthcheck.Dialer, place func(*trial) *healthcheck.Result) {
	probers := healthcheck.DefaultProbers(d)
	var group errgroup.Group
	group.SetLimit(maxTrials)
	for _, t := range trials {
		into := place(t)
		if into == nil {
			continue
		}
		own := into == &t.own
		group.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, t.check.Timeout)
			defer cancel()
			*into = probers[t.check.Type].Probe(limited, t.target(own))
			return nil
		})
	}
	_ = group.Wait() // no probe returns an error
}
