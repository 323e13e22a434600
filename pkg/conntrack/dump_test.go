package conntrack

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeTable is a flow table of a few records at tick 2000, 8 ticks a second.
type fakeTable []Record

func (f fakeTable) EachFlow(yield func(Record) bool) {
	for _, r := range f {
		if !yield(r) {
			return
		}
	}
}

func (fakeTable) RuleState(uint32) RuleState {
	return RuleState{Epoch: 1, ServiceEpoch: 1, IdleTicks: 4800}
}

func (fakeTable) MemberState(uint32) MemberState {
	return MemberState{Generation: [2]uint16{1, 1}, IdleTicks: 4800}
}
func (fakeTable) Now() (uint32, error)        { return 10000, nil }
func (fakeTable) TickDuration() time.Duration { return time.Second / 8 }

var testNames = Names{
	Member: map[uint32]MemberName{
		1: {Service: "web", Instance: "web-a-1", Zone: "zone-a"},
		2: {Service: "web", Instance: "web-b-1", Zone: "zone-b"},
	},
	Rule: map[uint32]RuleName{1: {Rule: "web-vip", Service: "web"}},
	Zone: map[uint32]string{1: "zone-a"},
}

func testTable() fakeTable {
	base := Record{
		Src: netip.MustParseAddr("10.1.0.7"), Dst: netip.MustParseAddr("192.0.2.10"), SrcPort: 40000, DstPort: 80,
		Protocol: 6, State: Confirmed, Member: 1, Rule: 1, Generation: 1, Epoch: 1, Last: 9992, Zone: 1,
	}
	idle, udp, session, stale := base, base, base, base
	idle.SrcPort, idle.Last, idle.Member = 40001, 6000, 2
	udp.Protocol, udp.State, udp.Src, udp.Zone = 17, Probation, netip.MustParseAddr("198.51.100.7"), 0
	session.Kind, session.SrcPort, session.DstPort, session.Protocol = ClientOnly, 0, 0, 0
	session.Dst = netip.IPv4Unspecified()
	stale.Generation = 2
	return fakeTable{base, idle, udp, session, stale}
}

func TestDumpFilters(t *testing.T) {
	tests := []struct {
		name             string
		filter           Filter
		total, confirmed int
		backends         map[string]int
	}{
		{"all entries that hold", Filter{}, 4, 3, map[string]int{"web-a-1": 3, "web-b-1": 1}},
		{"by client range", Filter{Client: netip.MustParsePrefix("198.51.100.0/24")}, 1, 0, map[string]int{"web-a-1": 1}},
		{"by VIP", Filter{VIP: netip.MustParseAddr("192.0.2.10")}, 3, 2, map[string]int{"web-a-1": 2, "web-b-1": 1}},
		{"by backend", Filter{Backend: "web-b-1"}, 1, 1, map[string]int{"web-b-1": 1}},
		{"by service", Filter{Service: "api"}, 0, 0, map[string]int{}},
		{"by client zone", Filter{Zone: "zone-a"}, 3, 3, map[string]int{"web-a-1": 2, "web-b-1": 1}},
		{"by state", Filter{State: Probation}, 1, 0, map[string]int{"web-a-1": 1}},
		{"by idle time", Filter{MinIdle: time.Minute}, 1, 1, map[string]int{"web-b-1": 1}},
		{"a limit lists less and counts all", Filter{Limit: 1}, 4, 3, map[string]int{"web-a-1": 3, "web-b-1": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Dump(testTable(), testNames, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got.Total != tt.total || got.Confirmed != tt.confirmed {
				t.Errorf("total %d, confirmed %d, want %d, %d", got.Total, got.Confirmed, tt.total, tt.confirmed)
			}
			if diff := cmp.Diff(tt.backends, got.Backends); diff != "" {
				t.Errorf("backends (-want +got):\n%s", diff)
			}
			want := tt.total
			if tt.filter.Limit > 0 {
				want = tt.filter.Limit
			}
			if len(got.Flows) != want {
				t.Errorf("%d flows listed, want %d", len(got.Flows), want)
			}
		})
	}
}

func TestDumpNamesWhatItShows(t *testing.T) {
	got, err := Dump(testTable(), testNames, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	tcp := Flow{
		Client: "10.1.0.7", ClientPort: 40000, VIP: "192.0.2.10", VIPPort: 80, Protocol: "TCP", Key: "FIVE_TUPLE",
		Service: "web", ForwardingRule: "web-vip", Backend: "web-a-1", BackendZone: "zone-a", ClientZone: "zone-a",
		State: "CONFIRMED", IdleSec: 1, ExpiresSec: 599,
	}
	session := tcp
	session.ClientPort, session.VIPPort, session.VIP, session.Protocol = 0, 0, "", ""
	session.Key = "CLIENT_IP_NO_DESTINATION"
	if diff := cmp.Diff([]Flow{tcp, session}, []Flow{got.Flows[0], got.Flows[3]}); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}
