package loader

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// reasonCases provoke each reason once. INTERNAL has no case: it says that a
// record is missing from an array map whose every index below its size exists,
// or that a bound checked before no longer holds.
var reasonCases = map[lbReason]func(t *testing.T, d *Datapath) (frame, Verdict){
	lbReasonREASON_NONE: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return webFrame(t), VerdictTX
	},
	lbReasonREASON_MALFORMED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(webFrame(t)()[:40]), VerdictPass
	},
	lbReasonREASON_FRAGMENT: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(webFrame(t)(testutil.Fragment(9, true))), VerdictDrop
	},
	lbReasonREASON_ICMP_ERROR: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(testutil.ICMPError(t, testutil.Router4, testutil.VIP4, 3, 4, [4]byte{}, webFrame(t)())), VerdictPass
	},
	lbReasonREASON_EXTENSION_HEADER: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return tcp(t, ap(testutil.Client6, 4000), ap(testutil.VIP6, 80), destOptions(7)...), VerdictPass
	},
	lbReasonREASON_ARP_REPLY: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4)), VerdictTX
	},
	lbReasonREASON_ND_REPLY: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6)), VerdictTX
	},
	lbReasonREASON_ECHO_REPLY: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return echo(t, testutil.Client4, testutil.VIP4), VerdictTX
	},
	lbReasonREASON_NO_RULE: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 81)), VerdictDrop
	},
	lbReasonREASON_NO_BACKEND: func(t *testing.T, d *Datapath) (frame, Verdict) {
		must(t, d.SetPick(serviceWeb, 0, 0))
		return webFrame(t), VerdictDrop
	},
	lbReasonREASON_OTHER_REGION: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return tcp(t, ap(netip.MustParseAddr("10.99.0.1"), 4000), ap(testutil.VIP4, 80)), VerdictDrop
	},
	lbReasonREASON_NO_NEIGHBOUR: func(t *testing.T, d *Datapath) (frame, Verdict) {
		changeMember(t, d, memberA, func(m *Member) { m.IfIndex = 0 })
		changeMember(t, d, memberB, func(m *Member) { m.IfIndex = 0 })
		return webFrame(t), VerdictDrop
	},
	lbReasonREASON_ECHO_RATE_LIMITED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		onOneCPU(t)
		f := echo(t, testutil.Client4, testutil.VIP4)
		for range d.opts.EchoPerSecond / 1000 {
			_, _, err := d.Run(f())
			must(t, err)
		}
		return f, VerdictDrop
	},
	lbReasonREASON_SOURCE_NOT_ALLOWED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		allow(t, d, ruleTCP80, "10.0.0.0/8")
		return webFrame(t), VerdictDrop
	},
	lbReasonREASON_RATE_LIMITED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		limit(t, d, ruleTCP80, Admission{Flows: FlowRate{PerSecond: 1, Burst: 1}})
		setFixturePick(t, d, 0, memberA)
		send(t, d, webFrame(t), started(memberA, ruleTCP80, 0, newOther))
		forgetFlows(d)
		return webFrame(t), VerdictDrop
	},
	lbReasonREASON_ECHO_BAD_CHECKSUM: func(t *testing.T, d *Datapath) (frame, Verdict) {
		b := testutil.Echo(t, testutil.Client4, testutil.VIP4)
		b[50] ^= 1
		return raw(b), VerdictDrop
	},
	lbReasonREASON_SOURCE_RATE_LIMITED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		limit(t, d, ruleTCP80, Admission{SourceFlows: FlowRate{PerSecond: 1, Burst: 1}, SourceBits: 128})
		setFixturePick(t, d, 0, memberA)
		send(t, d, webFrame(t), started(memberA, ruleTCP80, 0, newOther))
		forgetFlows(d)
		return webFrame(t), VerdictDrop
	},
	lbReasonREASON_TTL_EXPIRED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		addRoutes(t, d, outside()...)
		return tcp(t, ap(testutil.Client4, 4000), ap(testutil.Outside4, 80), testutil.TTL(1)), VerdictPass
	},
	lbReasonREASON_SENT_BY_BACKEND: func(t *testing.T, d *Datapath) (frame, Verdict) {
		addRoutes(t, d, outside()...)
		newFlowsGoTo(t, d, memberA)
		back := testutil.MACs(testutil.BackendAMAC, testutil.GatewayMAC)
		return tcp(t, ap(testutil.Client4, 4000), ap(testutil.Outside4, 80), back), VerdictPass
	},
	lbReasonREASON_TOO_BIG: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return tooBigFrame(t, d), VerdictTX
	},
	lbReasonREASON_TOO_BIG_NO_DF: func(t *testing.T, d *Datapath) (frame, Verdict) {
		return raw(tooBigFrame(t, d)(noDF)), VerdictTX
	},
	lbReasonREASON_TOO_BIG_RATE_LIMITED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		onOneCPU(t)
		f := tooBigFrame(t, d)
		for range d.opts.TooBigPerSecond / 1000 {
			_, _, err := d.Run(f())
			must(t, err)
		}
		return f, VerdictDrop
	},
	lbReasonREASON_TOO_BIG_UNANSWERED: func(t *testing.T, d *Datapath) (frame, Verdict) {
		f := tooBigFrame(t, d)
		return raw(f(func(p *testutil.Packet) { p.IP4.SrcIP = net.IPv4bcast })), VerdictDrop
	},
}

// tooBigFrame is too big for the tunnel that it makes.
func tooBigFrame(t *testing.T, d *Datapath) frame {
	c := tunnelCase{kind: lb.ForwardIPIP}
	c.open(t, d)
	f, _ := c.web(t, c.size(1500))
	return f
}

func webFrame(t *testing.T) frame {
	return tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80))
}

func TestEveryReasonHasACase(t *testing.T) {
	for reason := range ReasonMax {
		if lbReason(reason) == lbReasonREASON_INTERNAL {
			continue
		}
		provoke := reasonCases[lbReason(reason)]
		if provoke == nil {
			t.Errorf("reason %d (%s) has no case", reason, reason)
			continue
		}
		t.Run(reason.String(), func(t *testing.T) {
			d := newFixture(t)
			f, verdict := provoke(t, d)
			before := readCounters(t, d)
			trace, _, err := d.Run(f())
			if err != nil || trace.Reason != reason || trace.Verdict != verdict {
				t.Errorf("%+v, %v, want reason %q and %s", trace, err, reason, verdict)
			}
			if n := readCounters(t, d).since(before)["reason "+reason.String()]; reason != 0 && n != 1 {
				t.Errorf("counted %d times", n)
			}
		})
	}
}

// The names are those of the C enums, in its order.
func TestReasonsAndFlowEventsAreNamedAsInC(t *testing.T) {
	header, err := os.ReadFile("../../bpf/include/reason.h")
	if err != nil {
		t.Fatal(err)
	}
	names := func(prefix string) (out []string) {
		for line := range strings.Lines(string(header)) {
			name, _, found := strings.Cut(strings.TrimSpace(line), ",")
			if found && strings.HasPrefix(name, prefix) {
				out = append(out, strings.TrimPrefix(name, prefix))
			}
		}
		return out
	}
	reasons := names("REASON_")
	for i, name := range reasons {
		switch got := Reason(i).String(); {
		case name == "NONE" && got == "" || name == "MAX" && i == int(ReasonMax):
		case got != name:
			t.Errorf("reason %d is %q, in C %q", i, got, name)
		}
	}
	flowEvents := names("FLOW_EVENT_")
	for i, name := range flowEvents {
		if got := FlowEvent(i).String(); got != strings.ToLower(name) && i != int(FlowEventMax) {
			t.Errorf("flow event %d is %q, in C %q", i, got, name)
		}
	}
	if len(reasons) != int(ReasonMax)+1 || len(flowEvents) != int(FlowEventMax)+1 {
		t.Errorf("%d reasons and %d flow events in C", len(reasons)-1, len(flowEvents)-1)
	}
	if s := fmt.Sprintf("REASON_%d", uint32(ReasonMax)); ReasonMax.String() != s || FlowEvent(FlowEventMax).String() != "event_6" {
		t.Errorf("beyond the end: %s, %s", ReasonMax, FlowEventMax)
	}
}

func TestVerdictsAndFlowStatesAreNamed(t *testing.T) {
	for want, got := range map[string]string{
		"ABORTED": VerdictAborted.String(), "DROP": VerdictDrop.String(), "PASS": VerdictPass.String(),
		"TX": VerdictTX.String(), "REDIRECT": VerdictRedirect.String(), "VERDICT_5": Verdict(5).String(),
		"NONE": TraceNone.String(), "HIT": TraceHit.String(), "NEW": TraceNew.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each reason and flow event has a row of its own in the documentation.
func TestEveryReasonAndFlowEventIsDocumented(t *testing.T) {
	const page = "../../docs/setup/reasons.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			rows[strings.Trim(strings.TrimSpace(cells[1]), "`")]++
			for i, c := range cells[1:5] {
				if strings.TrimSpace(c) == "" {
					t.Errorf("%s: cell %d is empty: %s", page, i+1, line)
				}
			}
		}
	}
	check := func(name string) {
		if rows[name] != 1 {
			t.Errorf("%s: %d rows for %s", page, rows[name], name)
		}
	}
	for r := Reason(1); r < ReasonMax; r++ {
		check(r.String())
	}
	for e := range FlowEventMax {
		check(e.String())
	}
	for _, heading := range []string{"reason", "event", "---"} {
		delete(rows, heading)
	}
	if want := int(ReasonMax) - 1 + int(FlowEventMax); len(rows) != want {
		t.Errorf("%s: %d rows, want %d: one is no reason and no event", page, len(rows), want)
	}
}
