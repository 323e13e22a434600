package lab

import (
	"fmt"
	"strings"
)

// variant is a change of the lab's configuration that must not touch any
// connection, unless it takes a backend out.
type variant struct {
	what  string
	edits [][2]string // what to replace in lab.yaml, and by what
}

// variants are the configurations that a load test goes through in turn.
func variants() []variant {
	return []variant{
		{"spillover ratio 0.5", [][2]string{{"spilloverRatio: 0.8", "spilloverRatio: 0.5"}}},
		{"another table algorithm", [][2]string{{"  protocol: TCP\n", "  protocol: TCP\n  localityLbPolicy: MAGLEV\n"}}},
		{"web-b-3 drains", [][2]string{
			{"  - {instance: web-b-3, ipAddress: 10.2.0.13}\n", ""},
			{"  - {instance: web-b-3, ipAddress: \"2001:db8:b::13\"}\n", ""},
		}},
		{"clients without a zone get one", [][2]string{
			{"[10.2.0.0/16, \"2001:db8:b::/48\"]", "[10.2.0.0/16, \"2001:db8:b::/48\", 198.51.100.0/24, \"2001:db8:c::/48\"]"},
		}},
		{"a third forwarding rule", [][2]string{{"forwardingRules:\n", `forwardingRules:
- name: another
  IPAddress: 192.0.2.11
  IPProtocol: TCP
  allPorts: true
  backendService: web
`}}},
		{"no zonal affinity", [][2]string{
			{"ZONAL_AFFINITY_SPILL_CROSS_ZONE", "ZONAL_AFFINITY_DISABLED"}, {"      spilloverRatio: 0.8", "     "},
		}},
		{"the spare is a primary", [][2]string{{"{group: web-spare, failover: true}", "group: web-spare"}}},
		{"as committed", nil},
	}
}

// leaver is the backend that the load test takes out without draining, for
// longer than its clients are silent: its connections end, and nobody else's.
const leaver = "web-a-5"

// schedule is the variant of one reload out of some. Half way through the leaver
// leaves, and comes back with the last.
func schedule(reload, of int) variant {
	all := variants()
	v := all[reload%len(all)]
	switch {
	case reload == of-1:
		v = all[len(all)-1]
	case reload == of/2:
		v = variant{what: leaver + " leaves at once", edits: [][2]string{{"drainingTimeoutSec: 300", "drainingTimeoutSec: 0"}}}
		fallthrough
	case reload > of/2:
		v.edits = append(v.edits,
			[2]string{"  - {instance: web-a-5, ipAddress: 10.1.0.15}\n", ""},
			[2]string{"  - {instance: web-a-5, ipAddress: \"2001:db8:a::15\"}\n", ""})
	}
	return v
}

// text is the configuration with the edits made.
func (v variant) text() ([]byte, error) {
	text := string(configText)
	for _, e := range v.edits {
		if n := strings.Count(text, e[0]); n != 1 {
			return nil, fmt.Errorf("variant %q: %q is %d times in lab.yaml, not once", v.what, e[0], n)
		}
		text = strings.Replace(text, e[0], e[1], 1)
	}
	return []byte(text), nil
}
