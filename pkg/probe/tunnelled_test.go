package probe

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"l4lb/pkg/decap"
	"l4lb/pkg/encap"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// unwrap runs a decap on a backend until the returned function is called.
func (b *backend) unwrap(t *testing.T) (stop func()) {
	t.Helper()
	var d *decap.Decap
	must(t, b.ns.Do(func() (err error) {
		d, err = decap.Open(decap.Options{
			Interface: "eth0", GUEPort: decap.DefaultGUEPort, GENEVEPort: decap.DefaultGENEVEPort,
			Gateways: []netip.Prefix{netip.PrefixFrom(gateway4, 32), netip.PrefixFrom(gateway6, 128)},
		})
		return err
	}))
	return func() {
		t.Helper()
		if counts, err := d.Counts(); err != nil || counts["malformed"]+counts["header_not_supported"]+counts["source_not_listed"] > 0 {
			t.Errorf("the backend counts %v, %v", counts, err)
		}
		must(t, d.Close())
	}
}

// tunnelPath is the way to the i-th backend through a tunnel.
func (l *lab) tunnelPath(t *testing.T, i int, c tunnelCase) Path {
	t.Helper()
	p := l.path(i, c.inner6)
	source, end := gateway4, l.backends[i].addr4
	if c.outer6 {
		source, end = gateway6, l.backends[i].addr6
	}
	spec := encap.Tunnel{Kind: c.kind, Source: netip.PrefixFrom(source, source.BitLen()), Dest: end, LinkMTU: p.MTU}
	switch c.kind {
	case lb.ForwardGUE:
		spec.Port = decap.DefaultGUEPort
	case lb.ForwardGENEVE:
		spec.Port, spec.VNI = decap.DefaultGENEVEPort, tunnelVNI
	}
	var err error
	p.Tunnel, err = spec.Header()
	must(t, err)
	p.Way = lb.Way{Forwarding: c.kind, End: end, Port: spec.Port, VNI: spec.VNI}
	return p
}

// through makes one HTTP probe of the VIP by a path.
func (l *lab) through(t *testing.T, out *Output, p Path, response string) healthcheck.Result {
	t.Helper()
	vip := vip4
	if p.Backend.Is6() {
		vip = vip6
	}
	target := httpCheck(vip, response)
	target.Via = healthcheck.Via{Backend: p.Backend, Way: p.Way}
	return l.send(t, &healthcheck.Dialer{Route: out.Route}, target)
}

// A probe through a tunnel reaches the one backend that unwraps it, comes from
// the gateway's own address, and is answered directly. Without the tunnel's end
// it fails, although the backend's own address answers.
func TestTunnelThatDoesNotEndIsFound(t *testing.T) {
	l := newLab(t, 2)
	out := l.open(t, "gw-1")
	for _, c := range tunnelCases() {
		t.Run(c.String(), func(t *testing.T) {
			paths := []Path{l.tunnelPath(t, 0, c), l.tunnelPath(t, 1, c)}
			must(t, out.SetPaths(append(l.paths(), paths...)))
			stop := l.backends[0].unwrap(t)
			source, vip := gateway4, vip4
			if c.inner6 {
				source, vip = gateway6, vip6
			}
			want := fmt.Sprintf("backend0 from %s to %s", source, vip)
			if got := l.through(t, out, paths[0], want); !got.OK() {
				t.Errorf("got %s (%s), want %q", got.Detail, got.Text, want)
			}
			stop()
			if got := l.through(t, out, paths[0], ""); got.OK() {
				t.Error("it passes through a tunnel that nobody unwraps")
			}
			own := l.send(t, &healthcheck.Dialer{}, httpCheck(paths[0].Backend, "backend0"))
			if !own.OK() {
				t.Errorf("its own address: got %s (%s)", own.Detail, own.Text)
			}
			if got := l.probe(t, out, 0, c.inner6, "backend0"); !got.OK() {
				t.Errorf("the same backend by its link: got %s (%s)", got.Detail, got.Text)
			}
		})
	}
}

// A backend that unwraps and has no VIP is found out too.
func TestVIPIsMissingAtTheTunnelsEnd(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	defer l.backends[0].unwrap(t)()
	must(t, l.backends[0].ns.DelAddr("lo", netip.PrefixFrom(vip4, 32)))
	p4, p6 := l.tunnelPath(t, 0, tunnelCase{kind: lb.ForwardIPIP}), l.tunnelPath(t, 0, tunnelCase{kind: lb.ForwardIPIP, inner6: true})
	must(t, out.SetPaths([]Path{p4, p6}))
	if got := l.through(t, out, p4, ""); got.OK() {
		t.Error("the VIP is not there and the probe passes")
	}
	if got := l.through(t, out, p6, "backend0"); !got.OK() {
		t.Errorf("the VIP that is there: got %s (%s)", got.Detail, got.Text)
	}
}

// Two tunnels to one backend that end at different ports are two ways.
func TestTunnelsOfOneBackendAreToldApart(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	defer l.backends[0].unwrap(t)()
	good := l.tunnelPath(t, 0, tunnelCase{kind: lb.ForwardGUE})
	bad := good
	bad.Way.Port += 2
	bad.Tunnel.UDP[3] += 2 // the destination port
	must(t, out.SetPaths([]Path{good, bad}))
	if got := l.through(t, out, good, "backend0"); !got.OK() {
		t.Errorf("got %s (%s)", got.Detail, got.Text)
	}
	if got := l.through(t, out, bad, ""); got.OK() {
		t.Error("a port that nobody unwraps passes")
	}
}

// A request that takes several segments arrives whole.
func TestLongRequestsFitTheTunnel(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	defer l.backends[0].unwrap(t)()
	for _, c := range tunnelCases() {
		p := l.tunnelPath(t, 0, c)
		must(t, out.SetPaths([]Path{p}))
		target := httpCheck(vip4, "backend0")
		if c.inner6 {
			target.Addr = vip6
		}
		target.Check.Host = strings.Repeat("a", 900)
		target.Check.RequestPath = "/" + strings.Repeat("b", 20000)
		target.Via = healthcheck.Via{Backend: p.Backend, Way: p.Way}
		got := l.send(t, &healthcheck.Dialer{Route: out.Route}, target)
		if !got.OK() {
			t.Errorf("%s: got %s (%s)", c, got.Detail, got.Text)
		}
		link, err := l.gw.Link(out.device.name)
		must(t, err)
		if want := 1500 - int(p.Tunnel.Size); link.MTU != want {
			t.Errorf("%s: MTU %d, want %d", c, link.MTU, want)
		}
	}
}

// A backend may have no address of the VIP's family: the tunnel takes the probe
// there, and the gateway answers to its address on the way to the VIP.
func TestVIPOfTheOtherFamily(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	defer l.backends[0].unwrap(t)()
	must(t, l.gw.AddRoute(netip.PrefixFrom(vip4, 32), netip.Addr{}, "eth0"))
	must(t, l.gw.AddRoute(netip.PrefixFrom(vip6, 128), netip.Addr{}, "eth0"))
	for _, c := range tunnelCases() {
		if c.inner6 == c.outer6 {
			continue
		}
		p := l.tunnelPath(t, 0, c)
		// Its own address is that of the tunnel's end.
		p.Backend = p.Way.End
		must(t, out.SetPaths([]Path{p}))
		vip, source := vip4, gateway4
		if c.inner6 {
			vip, source = vip6, gateway6
		}
		target := httpCheck(vip, fmt.Sprintf("backend0 from %s to %s", source, vip))
		target.Via = healthcheck.Via{Backend: p.Backend, Way: p.Way}
		if got := l.send(t, &healthcheck.Dialer{Route: out.Route}, target); !got.OK() {
			t.Errorf("%s: got %s (%s)", c, got.Detail, got.Text)
		}
	}
}

// The source is found for backends whose own address is not on the tunnel's way.
func TestSourceOfTunnelledProbes(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	p := l.tunnelPath(t, 0, tunnelCase{kind: lb.ForwardIPIP, inner6: true})
	must(t, out.SetPaths([]Path{p}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	source, mark, err := out.Route(ctx, vip6, p.Backend, p.Way)
	if err != nil || source != gateway6 || mark == 0 {
		t.Errorf("got %s, %#x, %v", source, mark, err)
	}
}
