package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

var (
	vip4     = netip.MustParseAddr("192.0.2.10")
	vip6     = netip.MustParseAddr("2001:db8:f::10")
	gateway4 = netip.MustParseAddr("10.0.0.1")
	gateway6 = netip.MustParseAddr("2001:db8::1")
)

// backend is a host on the gateway's link with the VIPs on its loopback.
type backend struct {
	ns           *netlab.Namespace
	addr4, addr6 netip.Addr
	mac          net.HardwareAddr
}

// lab is a gateway and backends on one link. The gateway runs no data plane:
// nothing in it knows the VIPs.
type lab struct {
	gw       *netlab.Namespace
	backends []*backend
	ifindex  int
	mac      net.HardwareAddr
}

func newLab(t testing.TB, backends int) *lab {
	t.Helper()
	l := &lab{gw: newNS(t, "gateway")}
	link := newNS(t, "link")
	var ports []string
	join := func(ns *netlab.Namespace) {
		port := fmt.Sprint("port", len(ports))
		ports = append(ports, port)
		must(t, netlab.Veth(netlab.End{NS: ns, Name: "eth0"}, netlab.End{NS: link, Name: port}))
	}
	join(l.gw)
	for i := range backends {
		b := &backend{
			ns:    newNS(t, fmt.Sprint("backend", i)),
			addr4: netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}),
			addr6: netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", 11+i)),
		}
		join(b.ns)
		l.backends = append(l.backends, b)
	}
	must(t, link.Bridge("br0", ports...))
	must(t, l.gw.AddAddr("eth0", netip.PrefixFrom(gateway4, 24)))
	must(t, l.gw.AddAddr("eth0", netip.PrefixFrom(gateway6, 64)))
	attrs, err := l.gw.Link("eth0")
	must(t, err)
	l.ifindex, l.mac = attrs.Index, attrs.HardwareAddr
	for i, b := range l.backends {
		must(t, b.ns.AddAddr("eth0", netip.PrefixFrom(b.addr4, 24)))
		must(t, b.ns.AddAddr("eth0", netip.PrefixFrom(b.addr6, 64)))
		must(t, b.ns.AddAddr("lo", netip.PrefixFrom(vip4, 32)))
		must(t, b.ns.AddAddr("lo", netip.PrefixFrom(vip6, 128)))
		attrs, err := b.ns.Link("eth0")
		must(t, err)
		b.mac = attrs.HardwareAddr
		b.serve(t, fmt.Sprint("backend", i))
	}
	return l
}

// serve answers HTTP on every address with its name, and with whom it sees.
func (b *backend) serve(t testing.TB, name string) {
	t.Helper()
	lis, err := b.ns.Listen("tcp", ":80")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		to, _, _ := net.SplitHostPort(local.String())
		fmt.Fprintf(w, "%s from %s to %s", name, from, to)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(lis)
	}()
	t.Cleanup(func() { server.Close(); <-done })
}

// path is the way to the i-th backend.
func (l *lab) path(i int, ipv6 bool) Path {
	b := l.backends[i]
	p := Path{
		Backend: b.addr4, Way: lb.Way{Forwarding: lb.ForwardL2}, IfIndex: l.ifindex,
		DMAC: [6]byte(b.mac), SMAC: [6]byte(l.mac), MTU: 1500, Usable: true,
	}
	if ipv6 {
		p.Backend = b.addr6
	}
	return p
}

func (l *lab) paths() (list []Path) {
	for i := range l.backends {
		list = append(list, l.path(i, false), l.path(i, true))
	}
	return list
}

// open sets an Output up in the gateway, with ways to all backends.
func (l *lab) open(t testing.TB, gateway string) *Output {
	t.Helper()
	var out *Output
	must(t, l.gw.Do(func() (err error) {
		out, err = Open(Options{Gateway: gateway})
		return err
	}))
	t.Cleanup(func() { out.Close() })
	must(t, out.SetPaths(l.paths()))
	return out
}

// probe makes one HTTP probe from the gateway, of the VIP through backend i.
func (l *lab) probe(t testing.TB, out *Output, i int, ipv6 bool, response string) healthcheck.Result {
	t.Helper()
	vip := vip4
	if ipv6 {
		vip = vip6
	}
	target := httpCheck(vip, response)
	target.Via = healthcheck.Via{Backend: l.path(i, ipv6).Backend, Way: lb.Way{Forwarding: lb.ForwardL2}}
	return l.send(t, &healthcheck.Dialer{Route: out.Route}, target)
}

func (l *lab) send(t testing.TB, d *healthcheck.Dialer, target healthcheck.Target) (res healthcheck.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), target.Check.Timeout)
	defer cancel()
	must(t, l.gw.Do(func() error {
		res = (&healthcheck.HTTPProber{Dialer: d}).Probe(ctx, target)
		return nil
	}))
	return res
}

// httpCheck is a check that a healthy backend answers long before its timeout.
func httpCheck(addr netip.Addr, response string) healthcheck.Target {
	return healthcheck.Target{Addr: addr, Check: lb.HealthCheck{
		Name: "hc", Type: lb.CheckHTTP, Port: 80, CheckInterval: 5 * time.Second, Timeout: time.Second,
		HealthyThreshold: 1, UnhealthyThreshold: 1, Response: response,
	}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within polls until a condition holds.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func newNS(t testing.TB, name string) *netlab.Namespace {
	return testutil.NewNetNS(t, name).Namespace
}
