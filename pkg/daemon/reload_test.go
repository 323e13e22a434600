package daemon

import (
	"errors"
	"slices"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

func TestKeysThatNeedARestartAreNamed(t *testing.T) {
	base := lb.Gateway{
		Name: "gw-1", Interfaces: []string{"eth0"}, XDPMode: lb.XDPNative, FlowTable: lb.FlowTable{Entries: 1024},
		AdminListen: "unix:/run/l4lb/admin.sock", MetricsListen: "127.0.0.1:9464",
	}
	tests := []struct {
		change func(*lb.Gateway)
		want   []string
	}{
		{func(*lb.Gateway) {}, nil},
		{func(g *lb.Gateway) { g.Region = "region-2" }, nil},
		{func(g *lb.Gateway) { g.Name = "gw-2" }, []string{"name"}},
		{func(g *lb.Gateway) { g.Interfaces = []string{"eth0", "eth1"}; g.XDPMode = lb.XDPGeneric }, []string{"interfaces", "xdpMode"}},
		{func(g *lb.Gateway) { g.FlowTable.Entries = 2048 }, []string{"flowTable.entries"}},
		{func(g *lb.Gateway) { g.AdminListen = "127.0.0.1:9463"; g.MetricsListen = "" }, []string{"adminListen", "metricsListen"}},
		{func(g *lb.Gateway) { g.HashSeed = 1 }, []string{"hashSeed"}},
	}
	for _, tt := range tests {
		now := base
		tt.change(&now)
		if got := needRestart(base, now); !slices.Equal(got, tt.want) {
			t.Errorf("needRestart = %q, want %q", got, tt.want)
		}
	}
}

func TestReloadsAreRemembered(t *testing.T) {
	var r reloads
	bad := errors.New("bad")
	r.succeeded(noon)
	r.refused(noon.Add(time.Minute), bad)
	got := r.status()
	if got.InForceSince != noon || got.LastAt != noon.Add(time.Minute) || !errors.Is(got.LastError, bad) || got.Succeeded != 1 || got.Refused != 1 {
		t.Errorf("after a refusal: %+v", got)
	}
	r.succeeded(noon.Add(time.Hour))
	if got := r.status(); got.InForceSince != noon.Add(time.Hour) || got.LastError != nil || got.Succeeded != 2 {
		t.Errorf("after a success: %+v", got)
	}
}
