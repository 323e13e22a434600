package doctor

import (
	"net/netip"
	"strings"
	"testing"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// What the two results mean together.
func TestTrialFinding(t *testing.T) {
	result := func(d healthcheck.Detail) healthcheck.Result { return healthcheck.Result{Detail: d, Text: "text"} }
	const pass = healthcheck.DetailHealthy
	tests := []struct {
		name       string
		vip, own   healthcheck.Detail
		forwarding lb.Forwarding
		status     Status
		what, mend string
	}{
		{"all is well", pass, "", lb.ForwardL2, OK, "answers", ""},
		{"the VIP is missing", healthcheck.DetailTimeout, pass, lb.ForwardL2, Problem, "and not at the VIP", "ip addr add 192.0.2.10/32 dev lo"},
		{"the service has another address", healthcheck.DetailRefused, pass, lb.ForwardL2, Problem, "listens at 10.1.0.11:80 alone", "ss -ltnp"},
		{"the service tells addresses apart", healthcheck.DetailBadStatus, pass, lb.ForwardL2, Problem, "and not at the VIP", "ss -ltnp"},
		{"the tunnel ends nowhere", healthcheck.DetailTimeout, pass, lb.ForwardIPIP, Problem, "through the IPIP tunnel", "--tunnel IPIP"},
		{"the service is dead", healthcheck.DetailRefused, healthcheck.DetailRefused, lb.ForwardL2, Problem, "alike: REFUSED", "ss -ltnp"},
		{"the gateway cannot ask", healthcheck.DetailLocalError, "", lb.ForwardL2, Warning, "could not ask", ""},
		{"not asked yet", healthcheck.DetailUnknown, "", lb.ForwardL2, Note, "not asked", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := trial{
				peer: peer{"web-1", netip.MustParseAddr("10.1.0.11")}, vip: netip.MustParseAddr("192.0.2.10"),
				way: lb.Way{Forwarding: tt.forwarding}, check: lb.HealthCheck{Type: lb.CheckTCP, Port: 80},
				atVIP: result(tt.vip), own: result(tt.own),
			}
			f := tr.finding()
			if f.Status != tt.status || !strings.Contains(f.What, tt.what) || !strings.Contains(strings.Join(f.Mend, "; "), tt.mend) {
				t.Errorf("got %+v", f)
			}
			if f.Subject != "web-1 (10.1.0.11) at 192.0.2.10" {
				t.Errorf("subject %q", f.Subject)
			}
		})
	}
}
