package metrics

import "l4lb/pkg/loader"

// noReason is the label of what the kernel gets because nothing of it is ours.
const noReason = "NONE"

// verdictOf says what became of packets that were counted for a reason, "" for
// a reason that it does not know.
func verdictOf(r loader.Reason) string {
	switch r.String() {
	case "", "MALFORMED", "ICMP_ERROR", "EXTENSION_HEADER", "TTL_EXPIRED", "SENT_BY_BACKEND":
		return "pass"
	case "ARP_REPLY", "ND_REPLY", "ECHO_REPLY", "TOO_BIG", "TOO_BIG_NO_DF":
		return "answer"
	case "FRAGMENT", "NO_RULE", "NO_BACKEND", "OTHER_REGION", "NO_NEIGHBOUR", "ECHO_RATE_LIMITED", "ECHO_BAD_CHECKSUM",
		"SOURCE_NOT_ALLOWED", "RATE_LIMITED", "SOURCE_RATE_LIMITED", "TOO_BIG_RATE_LIMITED", "TOO_BIG_UNANSWERED":
		return "drop"
	case "INTERNAL":
		return "abort"
	}
	return ""
}

func (c *Collector) collectDatapath(s sink) {
	if reasons, err := c.opts.Counters.Reasons(); !c.failure(err) {
		for r, n := range reasons {
			name := loader.Reason(r).String()
			if name == "" {
				name = noReason
			}
			s.put(c.d.packets, float64(n), verdictOf(loader.Reason(r)), name)
		}
	}
	if events, err := c.opts.Counters.FlowEvents(); !c.failure(err) {
		for e, n := range events {
			s.put(c.d.flowEvents, float64(n), loader.FlowEvent(e).String())
		}
	}
	s.put(c.d.flowCapacity, float64(c.opts.Counters.FlowCapacity()))
}
