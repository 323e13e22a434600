package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"l4lb/pkg/lb"
)

func TestRefusedAdmissions(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "source ranges that no client can be in, and doubles",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- name: r
  IPAddress: 192.0.2.1
  ports: [80]
  backendService: s
  l4lb: {allowedSourceRanges: [10.0.0.0/8, "2001:db8::/32", 10.0.0.0/8, 10.0.0.1/8, 10.0.0.1, net]}
- name: q
  IPAddress: "2001:db8::1"
  ports: [80]
  backendService: s
  l4lb: {allowedSourceRanges: [10.0.0.0/8]}
- name: p
  IPAddress: 192.0.2.2
  ports: [80]
  backendService: s
  l4lb: {allowedSourceRanges: []}
` + gatewayYAML,
			want: []string{
				"7:44: allowedSourceRanges 2001:db8::/32 is IPv6 but IPAddress 192.0.2.1 is IPv4, so",
				"7:61: allowedSourceRanges 10.0.0.0/8 is listed twice, first at line 7: remove one",
				"7:73: allowedSourceRanges \"10.0.0.1/8\" has host bits set: write 10.0.0.0/8",
				"7:85: allowedSourceRanges \"10.0.0.1\" has no prefix length: write 10.0.0.1/32",
				"7:95: allowedSourceRanges \"net\" is not a network: write it as 10.1.0.0/16 or",
				"12:32: allowedSourceRanges 10.0.0.0/8 is IPv4 but IPAddress 2001:db8::1 is IPv6, so",
				"17:10: allowedSourceRanges is empty: remove it to allow every client, or list",
			},
		},
		{
			desc: "rates out of range, bursts alone and too small, prefix lengths",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- name: r
  IPAddress: 192.0.2.1
  ports: [80]
  backendService: s
  l4lb: {newFlowsPerSecond: 0, newFlowsPerSecondPerSource: 10000001, sourcePrefixLength: 33}
- name: q
  IPAddress: 192.0.2.2
  ports: [80]
  backendService: s
  l4lb: {newFlowsBurst: 5, newFlowsBurstPerSource: 5, sourcePrefixLength: 24}
- name: p
  IPAddress: "2001:db8::1"
  ports: [80]
  backendService: s
  l4lb:
    newFlowsPerSecond: 1001
    newFlowsBurst: 10
    newFlowsPerSecondPerSource: 200
    newFlowsBurstPerSource: 1
    sourcePrefixLength: 129
` + gatewayYAML,
			want: []string{
				"7:29: newFlowsPerSecond \"0\" is out of range: use 1 to 10000000",
				"7:60: newFlowsPerSecondPerSource \"10000001\" is out of range: use 1 to 10000000",
				"7:90: sourcePrefixLength 33 does not fit IPAddress 192.0.2.1: use 1 to 32",
				"12:25: newFlowsBurst has no effect without newFlowsPerSecond: add it or remove",
				"12:52: newFlowsBurstPerSource has no effect without newFlowsPerSecondPerSource:",
				"12:75: sourcePrefixLength has no effect without newFlowsPerSecondPerSource: add",
				"19:20: newFlowsBurst 10 is less than the flows of 10 ms at newFlowsPerSecond 1001: use at least 11",
				"21:29: newFlowsBurstPerSource 1 is less than the flows of 10 ms at newFlowsPerSecondPerSource 200: use at least 2",
				"22:25: sourcePrefixLength \"129\" is out of range: use 1 to 128",
			},
		},
	})
}

func TestAdmissionsGetTheirDefaults(t *testing.T) {
	doc, err := Parse("test", []byte(`backendServices: [{name: s}]
forwardingRules:
- {name: none, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- name: defaults
  IPAddress: 192.0.2.2
  ports: [80]
  backendService: s
  l4lb: {newFlowsPerSecond: 50, newFlowsPerSecondPerSource: 5, allowedSourceRanges: [10.2.0.0/16, 10.1.0.0/16, 10.0.0.0/12]}
- name: all
  IPAddress: "2001:db8::1"
  ports: [80]
  backendService: s
  l4lb: {newFlowsPerSecond: 50, newFlowsBurst: 7, newFlowsPerSecondPerSource: 5, newFlowsBurstPerSource: 9, sourcePrefixLength: 56}
- {name: ipv6, IPAddress: "2001:db8::2", ports: [80], backendService: s, l4lb: {newFlowsPerSecondPerSource: 5}}
`+gatewayYAML))
	if err != nil {
		t.Fatal(err)
	}
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	want := map[string]lb.Admission{
		"none": {},
		"defaults": {
			AllowedSources: prefixes("10.0.0.0/12", "10.1.0.0/16", "10.2.0.0/16"),
			Flows:          lb.FlowRate{PerSecond: 50, Burst: 50}, SourceFlows: lb.FlowRate{PerSecond: 5, Burst: 5}, SourcePrefix: 32,
		},
		"all":  {Flows: lb.FlowRate{PerSecond: 50, Burst: 7}, SourceFlows: lb.FlowRate{PerSecond: 5, Burst: 9}, SourcePrefix: 56},
		"ipv6": {SourceFlows: lb.FlowRate{PerSecond: 5, Burst: 5}, SourcePrefix: 64},
	}
	for _, r := range doc.Config.Rules {
		if diff := cmp.Diff(want[r.Name], r.Admission, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.Name, diff)
		}
	}
	wantWarnings := []string{
		"test:8:86: allowedSourceRanges 10.2.0.0/16 has no effect: it lies within 10.0.0.0/12 of line 8",
		"test:8:99: allowedSourceRanges 10.1.0.0/16 has no effect: it lies within 10.0.0.0/12 of line 8",
	}
	var warnings []string
	for _, w := range doc.Warnings {
		warnings = append(warnings, w.Error())
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
