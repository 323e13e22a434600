package netns

import (
	"encoding/json"
	"testing"

	"l4lb/pkg/conntrack"
)

// The flow table as `flows` shows it: an open connection with its backend, found
// by each filter that fits and by none that does not.
func TestFlowsShowsOpenConnections(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		conn, err := n.talk(f, inZoneA)
		if err != nil {
			t.Fatal(err)
		}
		name, err := conn.who()
		if err != nil {
			t.Fatal(err)
		}
		client := inZoneA.addr(f).String()
		flows := func(args ...string) conntrack.Report {
			t.Helper()
			out, err := g.command(append([]string{"flows", "-o", "json", "--client", client}, args...)...)
			var r conntrack.Report
			if err == nil {
				err = json.Unmarshal([]byte(out), &r)
			}
			if err != nil {
				t.Fatalf("flows %v: %v\n%s", args, err, out)
			}
			return r
		}
		r := flows("--state", "confirmed")
		if r.Total != 1 || r.Backends[name] != 1 {
			t.Fatalf("flows of %s: %+v, want one at %s", client, r, name)
		}
		got := r.Flows[0]
		if got.Client != client || got.VIP != f.vip.String() || got.Backend != name || got.Protocol != "TCP" ||
			got.ClientZone != "zone-a" || got.BackendZone != "zone-"+name[:1] || got.State != "CONFIRMED" {
			t.Errorf("the flow is shown as %+v", got)
		}
		for want, args := range map[int][][]string{
			1: {{"--backend", name}, {"--vip", f.vip.String()}, {"--zone", "zone-a"}, {"--service", got.Service}},
			0: {{"--backend", "nobody"}, {"--zone", "zone-b"}, {"--state", "PROBATION"}, {"--min-idle", "1h"}},
		} {
			for _, a := range args {
				if r := flows(a...); r.Total != want {
					t.Errorf("flows %v: %d, want %d", a, r.Total, want)
				}
			}
		}
	})
}
