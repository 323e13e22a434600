package conntrack

import "testing"

func TestHolds(t *testing.T) {
	rule := RuleState{Epoch: 3, ServiceEpoch: 7, IdleTicks: 100}
	member := MemberState{Generation: [2]uint16{5, 9}, IdleTicks: 50}
	tcp := Record{Protocol: 6, Kind: Ports, Epoch: 3, Generation: 5, Last: 1000}
	session := Record{Protocol: 6, Kind: ClientIPProto, Epoch: 7, Generation: 9, Last: 1000}
	tests := []struct {
		name string
		r    Record
		edit func(*Record)
		now  uint32
		want bool
	}{
		{"a fresh TCP entry holds", tcp, nil, 1000, true},
		{"an entry holds to the last tick of its idle time", tcp, nil, 1100, true},
		{"an entry ends after its idle time", tcp, nil, 1101, false},
		{"time that wraps round is still time", tcp, func(r *Record) { r.Last = 0xffffffff }, 99, true},
		{"an entry touched after the time was read holds", tcp, func(r *Record) { r.Last = 1003 }, 1000, true},
		{"a flushed rule ends its entries", tcp, func(r *Record) { r.Epoch = 2 }, 1000, false},
		{"a TCP entry follows the connections' generation", tcp, func(r *Record) { r.Generation = 9 }, 1000, false},
		{"an SCTP entry does too", tcp, func(r *Record) { r.Protocol = 132 }, 1000, true},
		{"a UDP entry follows the other generation", tcp, func(r *Record) { r.Protocol, r.Generation = 17, 9 }, 1000, true},
		{"a session entry follows the service's epoch and the other generation", session, nil, 1000, true},
		{"a session entry has its member's idle time", session, nil, 1050, true},
		{"a session entry ends after its member's idle time", session, nil, 1051, false},
		{"a session entry ends with the service's epoch", session, func(r *Record) { r.Epoch = 3 }, 1000, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.r
			if tt.edit != nil {
				tt.edit(&r)
			}
			if got := r.Holds(rule, member, tt.now); got != tt.want {
				t.Errorf("Holds = %v, want %v", got, tt.want)
			}
		})
	}
}
