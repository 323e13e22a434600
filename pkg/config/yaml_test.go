package config

import "testing"

func TestRefusedYAML(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "a file that is no YAML stops at the place",
			yaml: `forwardingRules: [
`,
			want: []string{
				"1:18: not valid YAML: sequence end token ']' not found",
			},
		},
		{
			desc: "a tab as indentation is no YAML",
			yaml: `l4lb:
	gateway: {}
`,
			want: []string{
				"2:1: not valid YAML: found character '\t' that cannot start any token",
			},
		},
		{
			desc: "an empty file",
			yaml: "",
			want: []string{
				"1:1: the configuration is empty: it needs at least l4lb.gateway",
			},
		},
		{
			desc: "a file of comments",
			yaml: `# nothing
`,
			want: []string{
				"1:1: the configuration is empty: it needs at least l4lb.gateway",
			},
		},
		{
			desc: "a list instead of a mapping",
			yaml: `- a
`,
			want: []string{
				"1:1: the configuration is a list: it must be a mapping that starts with keys",
			},
		},
		{
			desc: "a single value instead of a mapping",
			yaml: `l4lb
`,
			want: []string{
				"1:1: the configuration is a single value: it must be a mapping that starts",
			},
		},
		{
			desc: "two documents",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
---
routes: []
`,
			want: []string{
				"4:1: second YAML document: a configuration is one document, remove the ---",
			},
		},
		{
			desc: "unknown keys at every depth, with what was meant",
			yaml: `backendService: []
backendServices:
- name: s
  sessionaffinity: NONE
  connectionTrackingPolicy: {mode: PER_SESSION}
  l4lb: {colour: red}
` + gatewayYAML,
			want: []string{
				"1:1: unknown key \"backendService\": did you mean backendServices?",
				"4:3: unknown key \"sessionaffinity\": did you mean sessionAffinity?",
				"5:30: unknown key \"mode\": remove it, or use one of trackingMode,",
				"6:10: unknown key \"colour\": remove it, or use one of forwarding,",
			},
		},
		{
			desc: "output-only fields are those of resources only",
			yaml: `id: '1'
` + gatewayYAML,
			want: []string{
				"1:1: unknown key \"id\": remove it, or use one of l4lb, healthChecks,",
			},
		},
		{
			desc: "duplicate keys",
			yaml: `backendServices:
- name: s
  protocol: TCP
  name: t
` + gatewayYAML,
			want: []string{
				"4:3: duplicate key \"name\": it is already at line 2, keep one",
			},
		},
		{
			desc: "duplicate names of every kind",
			yaml: `healthChecks:
- {name: n, type: TCP}
- {name: n, type: TCP}
networkEndpointGroups:
- {name: n}
instanceGroups:
- {name: n}
backendServices:
- {name: n}
- {name: n}
forwardingRules:
- {name: n, IPAddress: 192.0.2.1, ports: [80], backendService: n}
- {name: n, IPAddress: 192.0.2.2, ports: [80], backendService: n}
` + gatewayYAML,
			want: []string{
				"3:10: duplicate name \"n\": line 2 has a health check of that name, rename one",
				"7:10: duplicate name \"n\": line 5 has a group of that name, rename one",
				"10:10: duplicate name \"n\": line 9 has a backend service of that name, rename",
				"13:10: duplicate name \"n\": line 12 has a forwarding rule of that name, rename",
			},
		},
		{
			desc: "a mapping, list or value in each other's place",
			yaml: `healthChecks: {name: a}
networkEndpointGroups: a
backendServices:
- s
- {name: [s], connectionDraining: 5, healthChecks: hc}
- {name: t, backends: [[x], null]}
` + gatewayYAML,
			want: []string{
				"1:15: healthChecks has a mapping where a list belongs: write each item on a",
				"2:24: networkEndpointGroups has a single value where a list belongs: write [a]",
				"4:3: \"s\" is a single value where a mapping belongs: its keys are name,",
				"5:10: name has a list: give it a single value",
				"5:35: \"5\" is a single value where a mapping belongs: its keys are",
				"5:52: healthChecks has a single value where a list belongs: write [hc]",
				"6:24: a list where a mapping belongs: its keys are group, failover,",
				"6:29: an empty value where a mapping belongs: its keys are group, failover,",
			},
		},
		{
			desc: "an unknown alias and a merge key",
			yaml: `backendServices:
- {name: s, protocol: *nope}
- &base {name: t}
- <<: *base
  name: u
` + gatewayYAML,
			want: []string{
				"2:23: alias *nope has no anchor before it: write &nope at the value it repeats",
				"4:3: merge key << is not supported: repeat the keys, or use an alias for a",
			},
		},
		{
			desc: "a key that is a list",
			yaml: `backendServices:
- ? [a, b]
  : c
` + gatewayYAML,
			want: []string{
				"3:3: not valid YAML: found an invalid key for this map",
			},
		},
		{
			desc: "keys that are the API's but cannot apply",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpointType: INTERNET_FQDN_PORT
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.1, port: 80, ipv6Address: "2001:db8::1"}
backendServices:
- name: s
  enableCDN: true
  connectionTrackingPolicy: {enableStrongAffinity: true}
  backends:
  - {group: g, balancingMode: UTILIZATION, maxRate: 5, capacityScaler: 0.5}
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, portRange: 80-90, ports: [80], backendService: s, serviceLabel: web}
` + gatewayYAML,
			want: []string{
				"3:24: networkEndpointType \"INTERNET_FQDN_PORT\" has no meaning here, a",
				"5:40: port is not accepted: packets keep their destination port on the way to",
				"5:50: ipv6Address is not accepted: write a second endpoint of the same",
				"8:14: enableCDN \"true\" has no meaning here, caching needs a proxy: remove it",
				"9:52: enableStrongAffinity \"true\" has no meaning here, it is of external load",
				"11:31: balancingMode \"UTILIZATION\" has no meaning here, internal passthrough",
				"11:44: maxRate is not accepted: internal passthrough load balancing has no",
				"11:72: capacityScaler \"0.5\" has no meaning here, internal passthrough load",
				"13:35: portRange is not accepted: an internal passthrough rule takes ports or",
				"13:99: serviceLabel \"web\" has no meaning here, no names are registered: remove",
			},
		},
		{
			desc: "single values of the wrong form",
			yaml: `healthChecks:
- name: "a b"
  type: tcp
  checkIntervalSec: 5s
  timeoutSec: 007
  healthyThreshold: 11
  unhealthyThreshold: two
  logConfig: {enable: yes}
- name: -a
  type: PING
  checkIntervalSec: 0
  logConfig: {enable: "true"}
` + gatewayYAML,
			want: []string{
				"2:9: name \"a b\" is not a name: use letters, digits, '-', '.' and '_', and a",
				"3:9: type \"tcp\" is not one of TCP, SSL, HTTP, HTTPS, HTTP2, GRPC,",
				"4:21: checkIntervalSec \"5s\" has a unit: write the number of seconds alone,",
				"5:15: timeoutSec \"007\" is not a whole number: write one from 1 to 300",
				"6:21: healthyThreshold \"11\" is out of range: use 1 to 10",
				"7:23: unhealthyThreshold \"two\" is not a whole number: write one from 1 to 10",
				"8:23: enable \"yes\" is not a boolean: write true or false, without quotes",
				"9:9: name \"-a\" is not a name: use letters, digits, '-', '.' and '_', and a",
				"10:9: type \"PING\" is not one of TCP, SSL, HTTP, HTTPS, HTTP2, GRPC,",
				"11:21: checkIntervalSec \"0\" is out of range: use 1 to 300",
				"12:23: enable \"true\" is not a boolean: write true or false, without quotes",
			},
		},
		{
			desc: "a required name is missing, at the item",
			yaml: `healthChecks:
- type: TCP
- {}
networkEndpointGroups:
- networkEndpoints:
  - instance: a
  - ipAddress: 10.0.0.1
backendServices:
- protocol: TCP
- name: s
  backends:
  - failover: true
forwardingRules:
- ports: [80]
routes:
- priority: 1
` + gatewayYAML,
			want: []string{
				"2:3: health check without name: add name: hc-http",
				"3:3: health check without name: add name: hc-http",
				"3:3: health check without type: add type: TCP",
				"5:3: group without name: add name: web-a",
				"6:5: endpoint without ipAddress: add ipAddress: 10.1.0.11",
				"7:5: endpoint without instance: add instance: web-a-1",
				"9:3: backend service without name: add name: web",
				"12:5: backend without group: add group: web-a",
				"14:3: forwarding rule without IPAddress: add IPAddress: 192.0.2.10",
				"14:3: forwarding rule without backendService: add backendService: web",
				"14:3: forwarding rule without name: add name: web-vip",
				"16:3: route without destRange: add destRange: 203.0.113.0/24",
				"16:3: route without name: add name: via-firewalls",
				"16:3: route without nextHopIlb: add nextHopIlb: fw-rule",
			},
		},
	})
}
