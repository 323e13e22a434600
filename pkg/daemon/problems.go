package daemon

import (
	"fmt"

	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// problems says what is not well about routes, services and backends, in this
// order.
func (v *view) problems(backends []admin.Backend) []string {
	out := append([]string{}, v.routeProblems()...)
	for i := range v.snapshot.Services {
		s := &v.snapshot.Services[i]
		if text := serviceProblem(s); text != "" && v.configured(s.Name) {
			out = append(out, text)
		}
	}
	for i := range backends {
		if text := backendProblem(&backends[i]); text != "" {
			out = append(out, text)
		}
		out = append(out, suspicionProblems(&backends[i])...)
	}
	return out
}

func serviceProblem(s *controller.ServiceStatus) string {
	switch {
	case len(s.Members) == 0:
		return fmt.Sprintf("service %s has no backends: its new connections are dropped", s.Name)
	case s.Kind == selector.Drop:
		return fmt.Sprintf("service %s has no eligible backend: its new connections are dropped", s.Name)
	case s.Kind == selector.UnhealthyPrimaries:
		return fmt.Sprintf("service %s has no healthy backend: its new connections go to all primaries that can be reached", s.Name)
	case s.Kind == selector.HealthyFailovers:
		return fmt.Sprintf("service %s has failed over", s.Name)
	}
	return ""
}

func backendProblem(b *admin.Backend) string {
	who := fmt.Sprintf("backend %s (%s) of %s", b.Instance, b.Address, b.Service)
	switch {
	case b.Leaving:
		return ""
	case !b.Link.Usable:
		return fmt.Sprintf("%s cannot be reached: %s", who, linkProblem(b.Link))
	case b.Tunnel != nil && b.Tunnel.Problem != "":
		return fmt.Sprintf("%s cannot be reached: %s", who, b.Tunnel.Problem)
	case b.Health == string(lb.Unhealthy):
		return fmt.Sprintf("%s is unhealthy%s", who, lastCheck(b))
	case b.Health == string(lb.Unknown):
		return fmt.Sprintf("%s has not passed a health check yet%s", who, lastCheck(b))
	case b.State == string(lb.Draining):
		return who + " is drained by hand"
	}
	return ""
}

func suspicionProblems(b *admin.Backend) (out []string) {
	for _, s := range b.Suspicions {
		out = append(out, fmt.Sprintf("backend %s (%s) of %s is SUSPECT: %s", b.Instance, b.Address, b.Service, s.Why))
	}
	return out
}

func lastCheck(b *admin.Backend) string {
	if b.LastCheck == nil {
		return ""
	}
	if b.LastCheck.Text == "" {
		return ": " + b.LastCheck.Detail
	}
	return fmt.Sprintf(": %s, %s", b.LastCheck.Detail, b.LastCheck.Text)
}

func linkProblem(l admin.Link) string {
	text := fmt.Sprintf("its next hop is %s", l.State)
	if l.Via != "" {
		text += " at " + l.Via
	}
	if l.Interface != "" {
		text += " on " + l.Interface
	}
	return text
}

// gatewayProblems says what is not well about the gateway itself.
func gatewayProblems(s *admin.Status) []string {
	var out []string
	if s.Config.LastError != "" {
		out = append(out, "the newest reload was refused: "+s.Config.LastError)
	}
	for _, i := range s.Interfaces {
		if !i.Attached {
			out = append(out, fmt.Sprintf("the program is not on interface %s", i.Name))
		}
	}
	if !s.Ready {
		out = append(out, "packets are not forwarded by the configuration yet")
	}
	return out
}

// reloadError puts the mistakes of a refused file on one line.
func reloadError(err error) string {
	if err == nil {
		return ""
	}
	if wrong, ok := asErrors(err); ok && len(wrong) > 1 {
		return fmt.Sprintf("%v (and %d more)", wrong[0], len(wrong)-1)
	}
	return err.Error()
}
