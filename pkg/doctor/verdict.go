package doctor

import (
	"fmt"
	"time"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// tryTimeout is what a connection gets where no health check says it.
const tryTimeout = 2 * time.Second

// finding says what the two results mean together.
func (t *trial) finding() Finding {
	subject := fmt.Sprintf("%s at %s", t.peer, t.vip)
	if t.direct {
		subject = t.peer.String()
	}
	f := Finding{Subject: subject, Status: Problem, On: t.peer.on(), Why: "it is unhealthy: it gets no new connections"}
	switch {
	case t.atVIP.OK():
		return well(subject, "answers")
	case t.atVIP.Detail == healthcheck.DetailUnknown:
		return Finding{Subject: subject, Status: Note, What: "the daemon has not asked it yet"}
	case t.atVIP.Detail == healthcheck.DetailLocalError || t.own.Detail == healthcheck.DetailLocalError:
		f.Status, f.On = Warning, ""
		f.What, f.Why = "the gateway could not ask: "+text(t.atVIP), "nothing is known of the backend"
		return f
	case t.direct:
		f.What = "the check of its own address fails: " + text(t.atVIP)
		f.Mend = []string{fmt.Sprintf("ss -ltnp 'sport = :%d'", t.check.Port)}
		return f
	case t.own.OK() && t.way.Forwarding == lb.ForwardL2:
		return t.onlyOwn(f)
	case t.own.OK():
		return t.noTunnel(f)
	}
	f.What = fmt.Sprintf("the check fails there and at the own address of the backend alike: %s", text(t.own))
	f.Mend = []string{fmt.Sprintf("ss -ltnp 'sport = :%d'", t.check.Port)}
	if t.own.Detail == healthcheck.DetailTimeout {
		f.Why += "; the host is there: the service hangs, or a firewall drops what comes from the gateway"
	}
	return f
}

// onlyOwn is the finding for a backend that answers at its own address alone.
func (t *trial) onlyOwn(f Finding) Finding {
	own := t.target(true).AddrPort()
	f.What = fmt.Sprintf("its service answers at %s, and not at the VIP: %s", own, text(t.atVIP))
	switch t.atVIP.Detail {
	case healthcheck.DetailRefused, healthcheck.DetailReset:
		f.What = fmt.Sprintf("the backend has the VIP, and its service listens at %s alone: %s", own, text(t.atVIP))
		f.Why = "clients ask for the VIP: the service must listen on it or on every address"
		f.Mend = []string{fmt.Sprintf("ss -ltnp 'sport = :%d'", t.check.Port)}
	case healthcheck.DetailTimeout, healthcheck.DetailUnreachable:
		f.Why = "packets for the VIP reach it and are dropped there: the VIP is missing on its lo, or a strict rp_filter or a firewall drops them"
		if t.vip.Is4() {
			f.Mend = arpMend()
		}
		f.Mend = append(f.Mend, addCommand(t.vip), fmt.Sprintf("l4lbd doctor --backend --vip %s --port %d", t.vip, t.check.Port))
	default:
		f.Why = "the service tells addresses apart: see its virtual hosts, and host of the health check"
		f.Mend = []string{fmt.Sprintf("ss -ltnp 'sport = :%d'", t.check.Port)}
	}
	return f
}

// noTunnel is the finding for a backend that answers at its own address alone,
// where a tunnel leads to it.
func (t *trial) noTunnel(f Finding) Finding {
	f.What = fmt.Sprintf("its service answers at %s, and not at the VIP through the %s tunnel: %s", t.target(true).AddrPort(), t.way.Forwarding, text(t.atVIP))
	f.Why = "the tunnel does not end there, the VIP is missing on its lo, or a strict rp_filter of the tunnel's device drops what comes out"
	f.Mend = []string{
		fmt.Sprintf("l4lbd doctor --backend --vip %s --port %d --tunnel %s", t.vip, t.check.Port, t.way.Forwarding),
	}
	return f
}

// text is a result for people.
func text(r healthcheck.Result) string {
	if r.Text == "" {
		return string(r.Detail)
	}
	return fmt.Sprintf("%s, %s", r.Detail, r.Text)
}
