package config

import (
	"time"

	"l4lb/pkg/lb"
)

// Defaults of a service's passiveSignals.
const (
	defaultSignalWindow = 10 * time.Second
	defaultSignalShare  = lb.RatioOne / 2
	defaultSignalEvents = 10
)

// passiveSignals is the block of that name in the `l4lb:` block of a service.
type passiveSignals struct {
	pos    pos
	enable val[bool]
	window val[time.Duration]
	share  val[lb.Ratio]
	events val[int]
}

func passiveSchema() *schema[passiveSignals] {
	return object(
		scalar("enable", func(p *passiveSignals) *val[bool] { return &p.enable }, boolean),
		scalar("windowSec", func(p *passiveSignals) *val[time.Duration] { return &p.window }, seconds(2, 300)),
		scalar("unconfirmedShare", func(p *passiveSignals) *val[lb.Ratio] { return &p.share }, ratio),
		scalar("minEvents", func(p *passiveSignals) *val[int] { return &p.events }, integer(1, 1_000_000)),
	)
}

// unconfirmedShareAboveZero: with 0 every backend would be suspected.
func unconfirmedShareAboveZero(c *check) {
	for i := range c.services {
		if share := c.services[i].extension.passive.share; share.ok() && share.v == 0 {
			c.errorf(share.pos, "unconfirmedShare 0 would suspect every backend: use more than 0, such as 0.5")
		}
	}
}

// passiveSignalsUnused finds thresholds of what is off.
func passiveSignalsUnused(c *check) {
	for i := range c.services {
		p := &c.services[i].extension.passive
		if (p.window.set || p.share.set || p.events.set) && !p.enable.or(false) {
			c.warnf(p.pos, "passiveSignals has no effect while its enable is false")
		}
	}
}

// sessionsHideSYNs: flows of PER_SESSION services are no single connections.
func sessionsHideSYNs(c *check) {
	for i := range c.services {
		s := &c.services[i]
		if s.extension.passive.enable.or(false) && s.tracking.mode.or(lb.PerConnection) == lb.PerSession &&
			!s.affinity.or(lb.AffinityNone).FiveTuple() {
			c.warnf(s.extension.passive.enable.pos, "passiveSignals sees no connections with trackingMode PER_SESSION and sessionAffinity %s: only ICMP errors count", s.affinity.v)
		}
	}
}

func buildPassive(p *passiveSignals) *lb.PassiveSignals {
	if !p.enable.or(false) {
		return nil
	}
	return &lb.PassiveSignals{
		Window:           p.window.or(defaultSignalWindow),
		UnconfirmedShare: p.share.or(defaultSignalShare),
		Minimum:          p.events.or(defaultSignalEvents),
	}
}
