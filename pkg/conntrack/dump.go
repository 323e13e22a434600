package conntrack

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Names turns ids into names; "" for an id that has none.
type Names struct {
	Member map[uint32]MemberName
	Rule   map[uint32]RuleName
	Zone   map[uint32]string
}

// MemberName is a backend of a service.
type MemberName struct{ Service, Instance, Zone string }

// RuleName is a forwarding rule of a service.
type RuleName struct{ Rule, Service string }

// Flow is one entry as people and programs see it. Its JSON is a contract:
// fields are only added.
type Flow struct {
	Client         string `json:"client"`
	ClientPort     uint16 `json:"clientPort"`
	VIP            string `json:"vip"`
	VIPPort        uint16 `json:"vipPort"`
	Protocol       string `json:"protocol"`
	Key            string `json:"key"`
	Service        string `json:"service"`
	ForwardingRule string `json:"forwardingRule"`
	Backend        string `json:"backend"`
	BackendZone    string `json:"backendZone"`
	ClientZone     string `json:"clientZone"`
	State          string `json:"state"`
	IdleSec        int64  `json:"idleSec"`
	ExpiresSec     int64  `json:"expiresSec"`
}

// Filter says which entries are wanted; zero fields want all.
type Filter struct {
	Client  netip.Prefix
	VIP     netip.Addr
	Backend string
	Service string
	Zone    string // of the client
	State   State
	MinIdle time.Duration
	Limit   int // entries returned; all are counted
}

// Report is the answer to a Filter: all matching entries counted, the first ones
// listed.
type Report struct {
	Total     int            `json:"total"`
	Confirmed int            `json:"confirmed"`
	Backends  map[string]int `json:"backends"`
	Flows     []Flow         `json:"flows"`
}

// Dump reads the whole table once. Entries that no packet would follow any more
// are left out.
func Dump(t Table, names Names, f Filter) (Report, error) {
	now, err := t.Now()
	if err != nil {
		return Report{}, fmt.Errorf("dump flows: %w", err)
	}
	d := dumper{
		table: t, names: names, filter: f, now: now, tick: t.TickDuration(),
		rules: map[uint32]RuleState{}, services: map[uint16]RuleState{}, members: map[uint32]MemberState{}, counts: map[uint32]int{},
	}
	d.report.Flows = []Flow{}
	for id := range names.Rule {
		rule := t.RuleState(id)
		d.services[rule.Service] = rule
	}
	t.EachFlow(func(r Record) bool {
		d.add(r)
		return true
	})
	d.report.Backends = map[string]int{}
	for id, n := range d.counts {
		d.report.Backends[names.Member[id].Instance] += n
	}
	return d.report, nil
}

// dumper caches the records that decide about entries: there are few of them
// and many entries.
type dumper struct {
	table  Table
	names  Names
	filter Filter
	now    uint32
	tick   time.Duration
	rules  map[uint32]RuleState
	// services holds a rule of each service: PER_SESSION entries may outlive
	// the rule that made them.
	services map[uint16]RuleState
	members  map[uint32]MemberState
	counts   map[uint32]int // by member id
	report   Report
}

func (d *dumper) ruleOf(r Record) RuleState {
	if r.Kind.Session() {
		return d.services[r.Service]
	}
	rule, ok := d.rules[r.Rule]
	if !ok {
		rule = d.table.RuleState(r.Rule)
		d.rules[r.Rule] = rule
	}
	return rule
}

func (d *dumper) add(r Record) {
	rule := d.ruleOf(r)
	member, ok := d.members[r.Member]
	if !ok {
		member = d.table.MemberState(r.Member)
		d.members[r.Member] = member
	}
	if !r.Holds(rule, member, d.now) || !d.wanted(r) {
		return
	}
	d.report.Total++
	d.counts[r.Member]++
	if r.State == Confirmed {
		d.report.Confirmed++
	}
	if d.filter.Limit <= 0 || len(d.report.Flows) < d.filter.Limit {
		idle := rule.IdleTicks
		if r.Kind.Session() {
			idle = member.IdleTicks
		}
		d.report.Flows = append(d.report.Flows, d.flow(r, idle))
	}
}

func (d *dumper) wanted(r Record) bool {
	f, member := d.filter, d.names.Member[r.Member]
	return (!f.Client.IsValid() || f.Client.Contains(r.Src)) &&
		(!f.VIP.IsValid() || f.VIP == r.Dst) &&
		(f.Backend == "" || f.Backend == member.Instance) &&
		(f.Service == "" || f.Service == member.Service) &&
		(f.Zone == "" || f.Zone == d.names.Zone[uint32(r.Zone)]) &&
		(f.State == 0 || f.State == r.State) &&
		d.idle(r) >= f.MinIdle
}

// idle is how long ago the last packet was; one that came after the time was
// read is just now.
func (d *dumper) idle(r Record) time.Duration {
	return time.Duration(max(int32(d.now-r.Last), 0)) * d.tick
}

func (d *dumper) flow(r Record, idleTicks uint32) Flow {
	member := d.names.Member[r.Member]
	idle := d.idle(r)
	out := Flow{
		Client: r.Src.String(), ClientPort: r.SrcPort, VIPPort: r.DstPort, Protocol: protocolName(r),
		Key: r.Kind.String(), Service: member.Service, ForwardingRule: d.names.Rule[r.Rule].Rule,
		Backend: member.Instance, BackendZone: member.Zone, ClientZone: d.names.Zone[uint32(r.Zone)],
		State: r.State.String(), IdleSec: int64(idle / time.Second),
		ExpiresSec: int64((time.Duration(idleTicks)*d.tick - idle) / time.Second),
	}
	if r.Kind != ClientOnly {
		out.VIP = r.Dst.String()
	}
	return out
}

func protocolName(r Record) string {
	if r.Kind == ClientIP || r.Kind == ClientOnly {
		return ""
	}
	switch r.Protocol {
	case 1:
		return "ICMP"
	case 6:
		return "TCP"
	case 17:
		return "UDP"
	case 47:
		return "GRE"
	case 50:
		return "ESP"
	case 51:
		return "AH"
	case 58:
		return "ICMPV6"
	case 132:
		return "SCTP"
	}
	return strconv.Itoa(int(r.Protocol))
}
