package config

import "testing"

func TestRefusedFrontends(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "neither ports nor allPorts",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, backendService: s}
- {name: q, IPAddress: 192.0.2.2, allPorts: false, ports: [], backendService: s}
` + gatewayYAML,
			want: []string{
				"3:3: forwarding rule without ports: add ports: [80] with up to 5 ports, or",
				"4:3: forwarding rule without ports: add ports: [80] with up to 5 ports, or",
			},
		},
		{
			desc: "both ports and allPorts",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [80], allPorts: true, backendService: s}
` + gatewayYAML,
			want: []string{
				"3:35: ports and allPorts: true exclude each other: remove one",
			},
		},
		{
			desc: "more than five ports",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [1, 2, 3, 4, 5, 6, 7], backendService: s}
` + gatewayYAML,
			want: []string{
				"3:58: ports has 7 entries: a rule takes at most 5, write allPorts: true or a",
			},
		},
		{
			desc: "ports out of range, ranges and doubles",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [0, "65536", 80-90, http, 80, "80"], backendService: s}
- {name: q, IPAddress: 192.0.2.2, ports: 80, backendService: s}
` + gatewayYAML,
			want: []string{
				"3:43: ports \"0\" is out of range: use 1 to 65535",
				"3:46: ports \"65536\" is out of range: use 1 to 65535",
				"3:55: ports \"80-90\" is a range: list up to 5 single ports, or set allPorts:",
				"3:62: ports \"http\" is not a whole number: write one from 1 to 65535",
				"3:72: ports 80 is listed twice: remove one",
				"3:72: ports has 6 entries: a rule takes at most 5, write allPorts: true or a",
				"4:42: ports has a single value where a list belongs: write [80]",
			},
		},
		{
			desc: "L3_DEFAULT takes all ports and needs an UNSPECIFIED service",
			yaml: `backendServices: [{name: s}, {name: u, protocol: UNSPECIFIED}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, IPProtocol: L3_DEFAULT, ports: [80], backendService: u}
- {name: b, IPAddress: 192.0.2.2, IPProtocol: L3_DEFAULT, allPorts: false, backendService: u}
- {name: c, IPAddress: 192.0.2.3, IPProtocol: L3_DEFAULT, allPorts: true, backendService: s}
` + gatewayYAML,
			want: []string{
				"3:59: ports cannot be used with IPProtocol L3_DEFAULT, which takes all:",
				"4:69: allPorts false cannot be used with IPProtocol L3_DEFAULT, which takes",
				"5:47: IPProtocol L3_DEFAULT does not fit backendService \"s\", whose protocol",
			},
		},
		{
			desc: "a rule of another protocol than its service",
			yaml: `backendServices: [{name: t, protocol: TCP}, {name: u, protocol: UDP}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, IPProtocol: UDP, ports: [53], backendService: t}
- {name: b, IPAddress: 192.0.2.2, ports: [53], backendService: u}
- {name: c, IPAddress: 192.0.2.3, IPProtocol: ICMP, allPorts: true, backendService: u}
` + gatewayYAML,
			want: []string{
				"3:47: IPProtocol UDP does not fit backendService \"t\", whose protocol is TCP:",
				"4:64: IPProtocol TCP does not fit backendService \"u\", whose protocol is UDP:",
				"5:47: IPProtocol \"ICMP\" cannot be used, a rule for one protocol besides TCP",
			},
		},
		{
			desc: "addresses that cannot be a VIP",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.0/24, ports: [80], backendService: s}
- {name: b, IPAddress: "2001:db8::/64", ports: [80], backendService: s}
- {name: c, IPAddress: "2001:db8::1/96", ports: [80], backendService: s}
- {name: d, IPAddress: 127.0.0.1, ports: [80], backendService: s}
- {name: e, IPAddress: regions/r/addresses/vip, ports: [80], backendService: s}
- {name: f, IPAddress: vip, ports: [80], backendService: s}
- {name: 192.0.2.7, IPAddress: 192.0.2.7, ports: [80], backendService: s}
- {name: g, IPAddress: 192.0.2.8, ipVersion: IPV6, ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"3:24: IPAddress \"192.0.2.0/24\" is a network: use one address, or an IPv6 /96",
				"4:24: IPAddress \"2001:db8::/64\" is a network: use one address, or an IPv6 /96",
				"5:24: IPAddress \"2001:db8::1/96\" has host bits set: write 2001:db8::/96",
				"6:24: IPAddress \"127.0.0.1\" cannot be reached from another host: use a",
				"7:24: IPAddress \"regions/r/addresses/vip\" is a reference to an address",
				"8:24: IPAddress \"vip\" is not an address: write it as 192.0.2.10 or",
				"9:10: name \"192.0.2.7\" is an address: a rule's name must be told from its",
				"10:46: ipVersion \"IPV6\" does not fit IPAddress 192.0.2.8: remove it or correct",
			},
		},
		{
			desc: "one address, protocol and port twice",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, ports: [80, 443], backendService: s}
- {name: b, IPAddress: 192.0.2.1, ports: [8080, 443, 80], backendService: s}
- {name: c, IPAddress: 192.0.2.1, IPProtocol: UDP, ports: [443], backendService: s}
` + gatewayYAML,
			want: []string{
				"4:49: port 443 of 192.0.2.1 with TCP already belongs to rule \"a\" at line 3:",
				"4:54: port 80 of 192.0.2.1 with TCP already belongs to rule \"a\" at line 3:",
			},
		},
		{
			desc: "a rule with all ports excludes the others of its protocol",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: b, IPAddress: 192.0.2.1, allPorts: true, backendService: s}
- {name: c, IPAddress: 192.0.2.2, allPorts: true, backendService: s}
- {name: d, IPAddress: 192.0.2.2, ports: [80], backendService: s}
- {name: e, IPAddress: 192.0.2.2, IPProtocol: UDP, ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"4:24: IPAddress 192.0.2.1 with TCP has ports in rule \"a\" at line 3: a rule",
				"6:24: IPAddress 192.0.2.2 with TCP already belongs on all ports to rule \"c\"",
			},
		},
		{
			desc: "two L3_DEFAULT rules on one address",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, IPProtocol: L3_DEFAULT, backendService: s}
- {name: b, IPAddress: 192.0.2.1, IPProtocol: L3_DEFAULT, backendService: s}
` + gatewayYAML,
			want: []string{
				"4:24: IPAddress 192.0.2.1 with L3_DEFAULT already belongs on all ports to",
			},
		},
		{
			desc: "an address inside the /96 of another rule",
			yaml: `backendServices: [{name: s}]
forwardingRules:
- {name: a, IPAddress: "2001:db8::/96", ports: [80], backendService: s}
- {name: b, IPAddress: "2001:db8::5", ports: [443, 80], backendService: s}
- {name: c, IPAddress: "2001:db8:1::5", ports: [80], backendService: s}
- {name: d, IPAddress: "2001:db8:1::/96", ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"4:52: port 80 of 2001:db8::5 with TCP already belongs to rule \"a\" at line 3:",
				"6:51: port 80 of 2001:db8:1:: with TCP already belongs to rule \"c\" at line 5:",
			},
		},
		{
			desc: "a backend without an address of the rule's family",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.1}
  - {instance: b, ipAddress: 10.0.0.2}
  - {instance: a, ipAddress: "2001:db8::1"}
backendServices: [{name: s, backends: [{group: g}]}]
forwardingRules:
- {name: four, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: six, IPAddress: "2001:db8:1::1", ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"10:26: IPAddress 2001:db8:1::1 is IPv6 but backend b of service \"s\" has no",
			},
		},
		{
			desc: "a backend with the address of a rule",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 192.0.2.1}
  - {instance: b, ipAddress: "2001:db8::9"}
backendServices: [{name: s}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: q, IPAddress: "2001:db8::/96", ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"4:30: ipAddress 192.0.2.1 belongs to forwarding rule \"r\": write the backend's",
				"5:30: ipAddress 2001:db8::9 belongs to forwarding rule \"q\": write the",
			},
		},
		{
			desc: "zonal affinity with a mirroring collector",
			yaml: `backendServices:
- {name: s, networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_SPILL_CROSS_ZONE}}}
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [80], backendService: s, isMirroringCollector: true}
` + gatewayYAML,
			want: []string{
				"4:89: isMirroringCollector true excludes zonal affinity, which backendService",
				"4:89: isMirroringCollector true is not supported yet: use false",
			},
		},
		{
			desc: "next hops that do not exist or are not clear",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: fw, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: fw2, IPAddress: 192.0.2.1, ports: [443], backendService: s}
routes:
- {name: a, destRange: 203.0.113.0/24, nextHopIlb: fx}
- {name: b, destRange: 203.0.113.0/24, nextHopIlb: 192.0.2.1}
- {name: c, destRange: 203.0.113.0/24, nextHopIlb: 192.0.2.9}
- {name: d, destRange: 203.0.113.0/24, nextHopIp: 192.0.2.9}
` + gatewayYAML,
			want: []string{
				"6:52: nextHopIlb \"fx\" does not exist: did you mean fw?",
				"7:52: nextHopIlb 192.0.2.1 is the address of several rules, fw and fw2: write",
				"8:52: nextHopIlb 192.0.2.9 is the address of no forwarding rule: add one with",
				"9:3: route without nextHopIlb: add nextHopIlb: fw-rule",
				"9:40: nextHopIp is not accepted: the next hop of a route is nextHopIlb",
			},
		},
		{
			desc: "routes that repeat or mix families",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: fw, IPAddress: 192.0.2.1, ports: [80], backendService: s}
routes:
- {name: a, destRange: 203.0.113.0/24, nextHopIlb: fw}
- {name: b, destRange: 203.0.113.0/24, priority: 1000, nextHopIlb: 192.0.2.1}
- {name: b, destRange: "2001:db8::/32", priority: 65536, nextHopIlb: fw}
- {name: c, destRange: 203.0.113.9/24, tags: [x], nextHopIlb: fw}
` + gatewayYAML,
			want: []string{
				"6:24: destRange 203.0.113.0/24 with priority 1000 and this next hop is",
				"7:10: duplicate name \"b\": line 6 has a route of that name, rename one",
				"7:24: destRange 2001:db8::/32 is of another address family than rule \"fw\"",
				"7:51: priority \"65536\" is out of range: use 0 to 65535",
				"8:24: destRange \"203.0.113.9/24\" has host bits set: write 203.0.113.0/24",
				"8:40: tags is not accepted: there are no network tags, the route applies to",
			},
		},
		{
			desc: "routes that cannot match, and restrictions that do not fit",
			yaml: `backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: fw, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: fw6, IPAddress: "2001:db8::1", ports: [80], backendService: s}
routes:
- {name: a, destRange: 224.0.0.0/24, nextHopIlb: fw}
- {name: b, destRange: 127.0.0.0/8, nextHopIlb: fw}
- {name: c, destRange: "fe80::/64", nextHopIlb: fw6}
- {name: d, destRange: 203.0.113.0/24, nextHopIlb: fw, l4lb: {interfaces: [eth9, eth0, eth0]}}
- {name: e, destRange: 203.0.113.0/24, nextHopIlb: fw, l4lb: {sourceRanges: ["2001:db8::/32", 10.0.0.0/8, 10.0.0.0/8, 10.0.0.1/8]}}
- {name: f, destRange: 203.0.113.0/24, nextHopIlb: fw, l4lb: {tags: [x]}}
- {name: g, destRange: 203.0.113.0/24, nextHopIlb: fw}
` + gatewayYAML,
			want: []string{
				"6:24: destRange 224.0.0.0/24 is in 224.0.0.0/4, which no router forwards to",
				"7:24: destRange 127.0.0.0/8 is in 127.0.0.0/8, which no router forwards to",
				"8:24: destRange fe80::/64 is in fe80::/10, which no router forwards to",
				"9:76: interfaces \"eth9\" is not an interface of the gateway: use one of",
				"9:88: interfaces \"eth0\" is listed twice: remove one",
				"10:78: sourceRanges 2001:db8::/32 is of another address family than destRange",
				"10:107: sourceRanges 10.0.0.0/8 is listed twice: remove one",
				"10:119: sourceRanges \"10.0.0.1/8\" has host bits set: write 10.0.0.0/8",
				"11:63: unknown key \"tags\": remove it, or use one of sourceRanges, interfaces",
				"12:24: destRange 203.0.113.0/24 with priority 1000 and this next hop is already the route",
			},
		},
	})
}
