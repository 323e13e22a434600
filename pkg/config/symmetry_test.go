package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pairYAML has the next hops of both directions over the two legs of the same
// firewalls; the services' and a group's lines are to be filled in.
const pairYAML = `
instanceGroups:
- {name: inside, networkEndpoints: [{instance: fw-1, ipAddress: 10.1.0.21}, {instance: fw-2, ipAddress: 10.1.0.22}]}
- {name: outside, networkEndpoints: [{instance: fw-1, ipAddress: 10.2.0.21}, {instance: %s, ipAddress: 10.2.0.22}]}
backendServices:
- {name: in, protocol: UNSPECIFIED, backends: [{group: inside}]%s}
- {name: out, protocol: UNSPECIFIED, backends: [{group: outside}]%s}
forwardingRules:
- {name: to-out, IPAddress: 10.1.0.100, ports: [80], backendService: in}
- {name: to-in, IPAddress: 10.2.0.100, ports: [80], backendService: %s}
routes:
- {name: forth, destRange: 203.0.113.0/24, nextHopIlb: to-out}
- {name: back, destRange: %s, nextHopIlb: to-in}
`

func TestPairsOfNextHopsThatDoNotChooseAlike(t *testing.T) {
	const zonal = ", networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}"
	tests := []struct {
		name                    string
		second, in, out, served string
		dest                    string
		want                    []string // line:col and a part of the message
	}{
		{name: "alike"},
		{name: "NONE is the five-tuple too", in: ", sessionAffinity: NONE", out: ", sessionAffinity: CLIENT_IP_PORT_PROTO"},
		{name: "zonal affinity on both", in: zonal, out: zonal},
		{name: "one instead of the other", dest: "203.0.113.0/24", out: ", sessionAffinity: CLIENT_IP"},
		{
			name: "the source alone", in: ", sessionAffinity: CLIENT_IP_NO_DESTINATION", out: ", sessionAffinity: CLIENT_IP_NO_DESTINATION",
			want: []string{`5:83: rules "to-out" and "to-in" are next hops over the same instances, but sessionAffinity CLIENT_IP_NO_DESTINATION hashes`, "6:85: "},
		},
		{
			name: "the source alone, both rules of one service", served: "in", in: ", sessionAffinity: CLIENT_IP_NO_DESTINATION",
			want: []string{"5:83: "},
		},
		{name: "one service for both", served: "in", in: zonal},
		{name: "other fields", out: ", sessionAffinity: CLIENT_IP", want: []string{"6:85: .*sessionAffinity is CLIENT_IP_PORT_PROTO for one and CLIENT_IP for the other"}},
		{name: "other fields, not written on the second", in: ", sessionAffinity: CLIENT_IP", want: []string{"6:3: .*sessionAffinity is CLIENT_IP for one"}},
		{name: "zonal affinity on one side", in: zonal, want: []string{"5:129: .*only one has zonal affinity"}},
		{name: "zonal affinity on the other side", out: zonal, want: []string{"6:131: .*only one has zonal affinity"}},
		{name: "other members", second: "fw-3", want: []string{"9:69: .*only one has the backends fw-2, fw-3"}},
		{name: "another filling", out: ", localityLbPolicy: MAGLEV", want: []string{"6:86: .*localityLbPolicy is GCP_RENDEZVOUS for one and MAGLEV"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			or := func(s, otherwise string) string {
				if s == "" {
					return otherwise
				}
				return s
			}
			doc := mustParse(t, fmt.Sprintf(pairYAML, or(tt.second, "fw-2"), tt.in, tt.out, or(tt.served, "out"), or(tt.dest, "198.51.100.0/24")))
			if len(doc.Asymmetries) != len(tt.want) {
				t.Fatalf("asymmetries %v, want %d", doc.Asymmetries, len(tt.want))
			}
			for i, want := range tt.want {
				at, text, _ := strings.Cut(want, ": ")
				a := doc.Asymmetries[i]
				if got := fmt.Sprintf("%d:%d", a.Line, a.Col); got != at || !strings.Contains(a.Msg, strings.TrimPrefix(text, ".*")) {
					t.Errorf("%s: %s, want %s", got, a.Msg, want)
				}
				if !slices.Contains(a.Services, or(tt.served, "out")) {
					t.Errorf("services %q", a.Services)
				}
			}
		})
	}
}
