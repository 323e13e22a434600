package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/internal/netlab"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// TestProbesReachTheirBackend probes one VIP through two backends, in both
// families: the one that is meant answers, and sees the gateway's own address.
func TestProbesReachTheirBackend(t *testing.T) {
	l := newLab(t, 2)
	out := l.open(t, "gw-1")
	for _, ipv6 := range []bool{false, true} {
		for i := range l.backends {
			from, to := gateway4, vip4
			if ipv6 {
				from, to = gateway6, vip6
			}
			want := fmt.Sprintf("backend%d from %s to %s", i, from, to)
			if got := l.probe(t, out, i, ipv6, want); !got.OK() {
				t.Errorf("backend %d, IPv6 %v: got %s (%s), want %q", i, ipv6, got.Detail, got.Text, want)
			}
		}
	}
}

// TestBackendThatDoesNotOwnTheVIP fails although its own address answers.
func TestBackendThatDoesNotOwnTheVIP(t *testing.T) {
	l := newLab(t, 2)
	out := l.open(t, "gw-1")
	b := l.backends[0]
	must(t, b.ns.DelAddr("lo", netip.PrefixFrom(vip4, 32)))
	must(t, b.ns.DelAddr("lo", netip.PrefixFrom(vip6, 128)))
	for _, ipv6 := range []bool{false, true} {
		if got := l.probe(t, out, 0, ipv6, ""); got.OK() {
			t.Errorf("IPv6 %v: passed: %s", ipv6, got.Text)
		}
		direct := l.send(t, &healthcheck.Dialer{}, httpCheck(l.path(0, ipv6).Backend, "backend0"))
		if !direct.OK() {
			t.Errorf("IPv6 %v: its own address: got %s (%s)", ipv6, direct.Detail, direct.Text)
		}
		if got := l.probe(t, out, 1, ipv6, "backend1"); !got.OK() {
			t.Errorf("IPv6 %v: the other backend: got %s (%s)", ipv6, got.Detail, got.Text)
		}
	}
}

// TestBackendWhoseFilterDropsIt has a backend that would send its answers by
// another interface, with a strict reverse path filter, as its clients'.
func TestBackendWhoseFilterDropsIt(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	b := l.backends[0]
	other := newNS(t, "other")
	must(t, netlab.Veth(netlab.End{NS: b.ns, Name: "eth1"}, netlab.End{NS: other, Name: "eth0"}))
	must(t, b.ns.AddRoute(netip.PrefixFrom(gateway4, 32), netip.Addr{}, "eth1"))
	must(t, b.ns.SetSysctl("ipv4/conf/eth0/rp_filter", "1"))
	if got := l.probe(t, out, 0, false, ""); got.Detail != healthcheck.DetailTimeout {
		t.Errorf("strict filter: got %s (%s), want TIMEOUT", got.Detail, got.Text)
	}
	must(t, b.ns.LinkDown("eth1"))
	if got := l.probe(t, out, 0, false, "backend0"); !got.OK() {
		t.Errorf("route of the interface: got %s (%s)", got.Detail, got.Text)
	}
}

// TestGatewayWithAStrictFilter routes the VIP elsewhere and filters strictly:
// answers come in all the same, and no setting of the host was touched.
func TestGatewayWithAStrictFilter(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	up := newNS(t, "upstream")
	must(t, netlab.Veth(netlab.End{NS: l.gw, Name: "eth1"}, netlab.End{NS: up, Name: "eth0"}))
	must(t, l.gw.AddAddr("eth1", netip.MustParsePrefix("198.51.100.1/24")))
	must(t, l.gw.AddRoute(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("198.51.100.2"), "eth1"))
	must(t, l.gw.SetSysctl("ipv4/conf/all/rp_filter", "1"))
	must(t, l.gw.Do(func() error {
		for iface, want := range map[string]bool{"eth0": true, "eth1": false} {
			if got, err := StrictReversePath(iface, vip4); err != nil || got != want {
				t.Errorf("the filter of %s would drop: %v, %v; want %v", iface, got, err, want)
			}
		}
		return nil
	}))
	before := l.state(t)
	if got := l.probe(t, out, 0, false, "backend0 from 10.0.0.1"); !got.OK() {
		t.Fatalf("got %s (%s)", got.Detail, got.Text)
	}
	if got, err := l.gw.Sysctl("ipv4/conf/all/rp_filter"); err != nil || got != "1" {
		t.Errorf("rp_filter is %q, %v", got, err)
	}
	if now := l.state(t); now == before {
		t.Error("no rule was added, so the filter does not filter here and the test shows nothing")
	}
	must(t, out.Close())
	if now := l.state(t); now != l.bare(t) {
		t.Errorf("left behind: %s", now)
	}
}

func TestRouteWaitsForTheWay(t *testing.T) {
	l := newLab(t, 1)
	out := l.open(t, "gw-1")
	unusable := l.path(0, false)
	unusable.Usable = false
	must(t, out.SetPaths([]Path{unusable}))
	route := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, _, err := out.Route(ctx, vip4, l.backends[0].addr4, lb.Way{Forwarding: lb.ForwardL2})
		return err
	}
	if err := route(20 * time.Millisecond); !errors.Is(err, ErrNoWay) || !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("no way: %v", err)
	}
	if got := l.probe(t, out, 0, false, ""); got.Detail != healthcheck.DetailUnreachable {
		t.Errorf("got %s (%s), want UNREACHABLE", got.Detail, got.Text)
	}
	done := make(chan error, 1)
	go func() { done <- route(10 * time.Second) }()
	must(t, out.SetPaths([]Path{l.path(0, false)}))
	if err := <-done; err != nil {
		t.Errorf("after the way is known: %v", err)
	}
	must(t, out.SetPaths(nil))
	if err := route(20 * time.Millisecond); !errors.Is(err, ErrNoWay) {
		t.Errorf("backend that is gone: %v", err)
	}
	must(t, out.Close())
	if err := route(time.Second); err == nil || errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("after Close: %v", err)
	}
}

// TestNewLinkAddressIsFollowed moves a backend to another link address.
func TestNewLinkAddressIsFollowed(t *testing.T) {
	l := newLab(t, 2)
	out := l.open(t, "gw-1")
	wrong := l.path(0, false)
	wrong.DMAC = [6]byte(l.backends[1].mac)
	must(t, out.SetPaths([]Path{wrong}))
	if got := l.probe(t, out, 0, false, "backend1"); !got.OK() {
		t.Errorf("got %s (%s): the probe does not follow the link address", got.Detail, got.Text)
	}
	must(t, out.SetPaths(l.paths()))
	if got := l.probe(t, out, 0, false, "backend0"); !got.OK() {
		t.Errorf("got %s (%s)", got.Detail, got.Text)
	}
}

func TestDeviceFollowsTheSmallestMTU(t *testing.T) {
	l := newLab(t, 2)
	out := l.open(t, "gw-1")
	for _, tt := range []struct{ a, b, want int }{{1400, 9000, 1400}, {9000, 9000, 9000}, {1000, 1500, 1280}} {
		a, b := l.path(0, false), l.path(1, false)
		a.MTU, b.MTU = tt.a, tt.b
		must(t, out.SetPaths([]Path{a, b}))
		link, err := l.gw.Link(out.device.name)
		must(t, err)
		if link.MTU != tt.want {
			t.Errorf("paths of %d and %d: MTU %d, want %d", tt.a, tt.b, link.MTU, tt.want)
		}
	}
}

func TestIndexesComeAgainLast(t *testing.T) {
	x := newIndexes()
	first, second := x.take(), x.take()
	x.free(first)
	for n := uint32(3); n <= maxIndex; n++ {
		if got := x.take(); got != n {
			t.Fatalf("take %d: got %d", n, got)
		}
	}
	if got := x.take(); first != 1 || second != 2 || got != first {
		t.Errorf("got %d, %d and then %d", first, second, got)
	}
}
