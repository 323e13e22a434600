package loader

import "fmt"

// Reason is why a packet met its verdict: enum reason of bpf/include/reason.h.
type Reason uint32

// ReasonMax is the number of reasons.
const ReasonMax = Reason(lbReasonREASON_MAX)

// The reasons that refuse a rule's new flows; Refused counts them by rule.
const (
	ReasonSourceNotAllowed  = Reason(lbReasonREASON_SOURCE_NOT_ALLOWED)
	ReasonRateLimited       = Reason(lbReasonREASON_RATE_LIMITED)
	ReasonSourceRateLimited = Reason(lbReasonREASON_SOURCE_RATE_LIMITED)
)

var reasonNames = [ReasonMax]string{
	lbReasonREASON_NONE:              "",
	lbReasonREASON_MALFORMED:         "MALFORMED",
	lbReasonREASON_FRAGMENT:          "FRAGMENT",
	lbReasonREASON_ICMP_ERROR:        "ICMP_ERROR",
	lbReasonREASON_EXTENSION_HEADER:  "EXTENSION_HEADER",
	lbReasonREASON_ARP_REPLY:         "ARP_REPLY",
	lbReasonREASON_ND_REPLY:          "ND_REPLY",
	lbReasonREASON_ECHO_REPLY:        "ECHO_REPLY",
	lbReasonREASON_NO_RULE:           "NO_RULE",
	lbReasonREASON_NO_BACKEND:        "NO_BACKEND",
	lbReasonREASON_OTHER_REGION:      "OTHER_REGION",
	lbReasonREASON_NO_NEIGHBOUR:      "NO_NEIGHBOUR",
	lbReasonREASON_ECHO_RATE_LIMITED: "ECHO_RATE_LIMITED",
	lbReasonREASON_INTERNAL:          "INTERNAL",

	lbReasonREASON_SOURCE_NOT_ALLOWED:  "SOURCE_NOT_ALLOWED",
	lbReasonREASON_RATE_LIMITED:        "RATE_LIMITED",
	lbReasonREASON_SOURCE_RATE_LIMITED: "SOURCE_RATE_LIMITED",

	lbReasonREASON_TTL_EXPIRED:     "TTL_EXPIRED",
	lbReasonREASON_SENT_BY_BACKEND: "SENT_BY_BACKEND",

	lbReasonREASON_TOO_BIG:              "TOO_BIG",
	lbReasonREASON_TOO_BIG_NO_DF:        "TOO_BIG_NO_DF",
	lbReasonREASON_TOO_BIG_RATE_LIMITED: "TOO_BIG_RATE_LIMITED",
	lbReasonREASON_TOO_BIG_UNANSWERED:   "TOO_BIG_UNANSWERED",

	lbReasonREASON_ECHO_BAD_CHECKSUM: "ECHO_BAD_CHECKSUM",
}

// String is the metric label; "" for packets that were forwarded or are not ours.
func (r Reason) String() string {
	if r >= ReasonMax {
		return fmt.Sprintf("REASON_%d", uint32(r))
	}
	return reasonNames[r]
}

// FlowEvent is what happened to the flow table: enum flow_event.
type FlowEvent uint32

const (
	FlowEventNewSYN    = FlowEvent(lbFlowEventFLOW_EVENT_NEW_SYN)
	FlowEventNewOther  = FlowEvent(lbFlowEventFLOW_EVENT_NEW_OTHER)
	FlowEventConfirmed = FlowEvent(lbFlowEventFLOW_EVENT_CONFIRMED)
)

// FlowEventMax is the number of flow events.
const FlowEventMax = FlowEvent(lbFlowEventFLOW_EVENT_MAX)

var flowEventNames = [FlowEventMax]string{
	lbFlowEventFLOW_EVENT_NEW_SYN:             "new_syn",
	lbFlowEventFLOW_EVENT_NEW_OTHER:           "new_other",
	lbFlowEventFLOW_EVENT_CONFIRMED:           "confirmed",
	lbFlowEventFLOW_EVENT_PROBATION_DISPLACED: "probation_displaced",
	lbFlowEventFLOW_EVENT_NO_ROOM:             "no_room",
	lbFlowEventFLOW_EVENT_CONTENDED:           "contended",
}

// String is the metric label.
func (e FlowEvent) String() string {
	if e >= FlowEventMax {
		return fmt.Sprintf("event_%d", uint32(e))
	}
	return flowEventNames[e]
}
