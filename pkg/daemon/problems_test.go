package daemon

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/admin"
	"l4lb/pkg/config"
	"l4lb/pkg/controller"
	"l4lb/pkg/selector"
)

func TestProblemsOfBackends(t *testing.T) {
	reachable := admin.Link{State: "RESOLVED", Usable: true}
	well := admin.Backend{Service: "web", Instance: "web-a-1", Address: "10.1.0.11", State: "HEALTHY", Health: "HEALTHY", Link: reachable}
	tests := []struct {
		name   string
		change func(*admin.Backend)
		want   string
	}{
		{"one that is well", func(*admin.Backend) {}, ""},
		{"one without a link address", func(b *admin.Backend) {
			b.Link = admin.Link{State: "UNRESOLVED", Via: "10.1.0.11", Interface: "eth0"}
		}, "backend web-a-1 (10.1.0.11) of web cannot be reached: its next hop is UNRESOLVED at 10.1.0.11 on eth0"},
		{
			"one without a route", func(b *admin.Backend) { b.Link = admin.Link{State: "NO_ROUTE"} },
			"backend web-a-1 (10.1.0.11) of web cannot be reached: its next hop is NO_ROUTE",
		},
		{"an unhealthy one", func(b *admin.Backend) {
			b.Health, b.LastCheck = "UNHEALTHY", &admin.Check{Detail: "REFUSED", Text: "connect: connection refused"}
		}, "backend web-a-1 (10.1.0.11) of web is unhealthy: REFUSED, connect: connection refused"},
		{
			"one that nobody judged", func(b *admin.Backend) { b.Health = "UNKNOWN" },
			"backend web-a-1 (10.1.0.11) of web has not passed a health check yet",
		},
		{
			"one that is drained by hand", func(b *admin.Backend) { b.State = "DRAINING" },
			"backend web-a-1 (10.1.0.11) of web is drained by hand",
		},
		{"one that leaves is none", func(b *admin.Backend) { b.State, b.Leaving, b.Link = "DRAINING", true, admin.Link{} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := well
			tt.change(&b)
			if got := backendProblem(&b); got != tt.want {
				t.Errorf("problem %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProblemsOfServices(t *testing.T) {
	some := []controller.MemberStatus{{}}
	tests := []struct {
		status controller.ServiceStatus
		want   string
	}{
		{controller.ServiceStatus{Kind: selector.HealthyPrimaries, Members: some}, ""},
		{controller.ServiceStatus{Kind: selector.HealthyFailovers, Members: some}, "service web has failed over"},
		{
			controller.ServiceStatus{Kind: selector.UnhealthyPrimaries, Members: some},
			"service web has no healthy backend: its new connections go to all primaries that can be reached",
		},
		{controller.ServiceStatus{Kind: selector.Drop, Members: some}, "service web has no eligible backend: its new connections are dropped"},
		{controller.ServiceStatus{Kind: selector.Drop}, "service web has no backends: its new connections are dropped"},
	}
	for _, tt := range tests {
		tt.status.Name = "web"
		if got := serviceProblem(&tt.status); got != tt.want {
			t.Errorf("problem %q, want %q", got, tt.want)
		}
	}
}

func TestProblemsAreThoseOfConfiguredServices(t *testing.T) {
	v := testView()
	v.snapshot.Services = append(v.snapshot.Services, controller.ServiceStatus{Name: "removed"})
	backends, err := v.backends("")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"backend web-x-1 (10.9.0.11) of web cannot be reached: its next hop is NO_ROUTE"}
	if diff := cmp.Diff(want, v.problems(backends)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestProblemsOfTheGateway(t *testing.T) {
	s := admin.Status{Interfaces: []admin.Interface{{Name: "eth0"}, {Name: "eth1", Attached: true}}}
	wrong := config.Errors{{File: "f.yaml", Line: 3, Col: 1, Msg: "bad"}, {File: "f.yaml", Line: 4, Col: 1, Msg: "worse"}}
	s.Config.LastError = reloadError(errors.Join(wrong))
	want := []string{
		"the newest reload was refused: f.yaml:3:1: bad (and 1 more)",
		"the program is not on interface eth0",
		"packets are not forwarded by the configuration yet",
	}
	if diff := cmp.Diff(want, gatewayProblems(&s)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
