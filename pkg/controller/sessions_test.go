package controller

import (
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// sticky makes web track clients.
func sticky(a lb.SessionAffinity) func(*lb.Config) {
	return web(func(s *lb.Service) { s.Affinity, s.Tracking.Mode = a, lb.PerSession })
}

func noRules(cfg *lb.Config) { cfg.Rules = nil }

// A rule that moves to a service, whose key means something else than that of
// its old one, does not end the sessions of the service.
func TestRuleFromAnotherServiceLeavesSessionsAlone(t *testing.T) {
	w := newWorld(t, testConfig(withOther, sticky(lb.AffinityClientIP)))
	epoch := w.rule("web-vip").ServiceEpoch
	w.reload(testConfig(withOther, sticky(lb.AffinityClientIP), func(cfg *lb.Config) { cfg.Rule("other-vip").Service = "web" }))
	w.want("service epoch", w.rule("web-vip").ServiceEpoch, epoch)
	w.want("service epoch of the rule that moved", w.rule("other-vip").ServiceEpoch, epoch)
}

// Sessions end when their key changes meaning, also while no rule leads to the
// service: they must not come back with the old meaning.
func TestKeyThatChangesWithoutRulesEndsSessions(t *testing.T) {
	w := newWorld(t, testConfig(sticky(lb.AffinityClientIP)))
	epoch := w.rule("web-vip").ServiceEpoch
	w.reload(testConfig(sticky(lb.AffinityClientIP), noRules))
	w.reload(testConfig(noRules))
	w.reload(testConfig(sticky(lb.AffinityClientIP)))
	w.want("service epoch changed", w.rule("web-vip").ServiceEpoch != epoch, true)
}

// PER_SESSION entries may outlive the rule that made them, so their idle timeout
// is also where their backend is.
func TestMembersKnowTheIdleTimeoutOfSessions(t *testing.T) {
	w := newWorld(t, testConfig())
	w.want("without sessions", w.member("web", "a1").IdleTicks, 0)
	w.reload(testConfig(sticky(lb.AffinityClientIP)))
	w.want("with sessions", w.member("web", "a1").IdleTicks, w.dp.Ticks(600*time.Second))
	w.reload(testConfig(sticky(lb.AffinityClientIP), web(func(s *lb.Service) { s.Tracking.IdleTimeout = time.Hour })))
	w.want("another timeout", w.member("web", "a1").IdleTicks, w.dp.Ticks(time.Hour))
}
