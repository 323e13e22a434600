package daemon

import (
	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// showChecks fills in what health checks found at each address a backend is
// probed at. The backend's own columns tell of the one that decides its health.
func showChecks(row *admin.Backend, list []controller.RuleHealth) {
	row.Checks = []admin.RuleCheck{}
	var decides *controller.RuleHealth
	for i := range list {
		h := &list[i]
		if decides == nil || rank(h.State) > rank(decides.State) {
			decides = h
		}
		row.Checks = append(row.Checks, ruleCheck(h))
	}
	if decides != nil {
		row.Since, row.LastCheck = moment(decides.Since), lastProbe(&decides.Status)
	}
}

// rank orders states by what they say against a backend.
func rank(s lb.HealthState) int {
	switch s {
	case lb.Healthy:
		return 0
	case lb.Unhealthy:
		return 2
	}
	return 1
}

func ruleCheck(h *controller.RuleHealth) admin.RuleCheck {
	out := admin.RuleCheck{
		ForwardingRules: append([]string{}, h.Rules...), Target: h.Target.AddrPort().String(),
		Protocol: string(h.Target.Check.Type), State: string(h.State), Since: moment(h.Since), Last: lastProbe(&h.Status),
		Passes: h.Passes, Misses: h.Misses, Transitions: h.Transitions, Damped: h.Damped, History: []admin.Transition{},
	}
	if h.Source.IsValid() {
		out.Source = h.Source.String()
	}
	for _, t := range h.History {
		out.History = append(out.History, admin.Transition{From: string(t.Previous), To: string(t.State), Check: *probeOf(t.Result)})
		out.History[len(out.History)-1].Check.At = t.At
	}
	return out
}

// lastProbe is nil before the first.
func lastProbe(s *healthcheck.Status) *admin.Check {
	if s.LastAt.IsZero() {
		return nil
	}
	c := probeOf(s.Last)
	c.At = s.LastAt
	return c
}

func probeOf(r healthcheck.Result) *admin.Check {
	return &admin.Check{Detail: string(r.Detail), Text: r.Text, LatencySec: r.Latency.Seconds()}
}
