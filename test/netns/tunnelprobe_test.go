package netns

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

// A backend whose tunnel nobody unwraps is unhealthy although its own address
// answers, however the end of the tunnel went away, and gets no new connection.
// It is healthy again when the tunnel ends there again.
func TestBackendWithoutItsTunnelIsUnhealthy(t *testing.T) {
	for kind := range tunnelKinds {
		for _, f := range families {
			t.Run(kind+" "+f.name, func(t *testing.T) {
				t.Parallel()
				n, s := remoteNetwork(t, kind)
				b := n.backends["a8"]
				n.backends["b8"].startDecap(t)
				end := b.startDecap(t)
				g := startGateway(n, s)
				for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
					end.end(how)
					g.awaitStateOver(f, "UNHEALTHY", "a8")
					g.wantOwnAddressAnswers(b, f)
					g.wantCheckedAt(f, "a8", "UNHEALTHY", hostPort(f.vip, healthPort))
					wantNoFlows(t, n, f, "a8")
					end = b.startDecap(t)
					g.awaitStateOver(f, "HEALTHY", "a8")
				}
				// The VIP is as needed as it is without a tunnel.
				vip := netip.PrefixFrom(f.vip, f.bits).String()
				b.ns.DelAddr("lo", vip)
				g.awaitStateOver(f, "UNHEALTHY", "a8")
				b.ns.AddAddr("lo", vip)
				g.awaitStateOver(f, "HEALTHY", "a8")
			})
		}
	}
}

// Without a daemon the doctor sends probes of its own through the tunnels.
func TestDoctorAsksThroughTunnels(t *testing.T) {
	for kind := range tunnelKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n, s := remoteNetwork(t, kind)
			n.backends["b8"].startDecap(t)
			g := newGateway(n, s)
			args := []string{"--config", g.configPath()}
			a8 := n.backends["a8"]
			missing := func(f family) string {
				return "backendService: a8 (" + a8.addr(f) + ") at " + f.vip.String()
			}
			f := awaitFaults(t, n.gateway, args, missing(families[0]), missing(families[1]))
			if want := "not at the VIP through the " + kind + " tunnel"; !strings.Contains(f.What, want) {
				t.Errorf("it says %q, want %q", f.What, want)
			}
			a8.startDecap(t)
			awaitFaults(t, n.gateway, args)
		})
	}
}
