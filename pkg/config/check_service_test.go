package config

import "testing"

func TestRefusedServices(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "unknown references",
			yaml: `backendServices:
- name: s
  healthChecks: [hc]
  backends: [{group: g}]
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [80], backendService: t}
` + gatewayYAML,
			want: []string{
				"3:18: healthChecks \"hc\" does not exist: the file defines no health check",
				"4:22: group \"g\" does not exist: the file defines no group",
				"6:64: backendService \"t\" does not exist: the file defines s",
			},
		},
		{
			desc: "two health checks",
			yaml: `healthChecks: [{name: a, type: TCP}, {name: b, type: TCP}]
backendServices:
- {name: s, healthChecks: [a, b]}
` + gatewayYAML,
			want: []string{
				"3:31: healthChecks has 2 entries: a backend service has at most one health",
			},
		},
		{
			desc: "schemes and affinities that need a proxy",
			yaml: `backendServices:
- {name: s, loadBalancingScheme: EXTERNAL, sessionAffinity: HTTP_COOKIE}
- {name: t, loadBalancingScheme: internal, sessionAffinity: CLIENT_IPS}
- {name: u, protocol: SCTP, localityLbPolicy: ROUND_ROBIN}
` + gatewayYAML,
			want: []string{
				"2:34: loadBalancingScheme \"EXTERNAL\" cannot be used, only internal",
				"2:61: sessionAffinity \"HTTP_COOKIE\" cannot be used, it works on HTTP and a",
				"3:34: loadBalancingScheme \"internal\" is not one of INTERNAL: did you mean",
				"3:61: sessionAffinity \"CLIENT_IPS\" is not one of NONE, CLIENT_IP,",
				"4:23: protocol \"SCTP\" is not one of TCP, UDP, UNSPECIFIED: did you mean TCP?",
				"4:47: localityLbPolicy \"ROUND_ROBIN\" is not one of MAGLEV, WEIGHTED_MAGLEV,",
			},
		},
		{
			desc: "a group attached twice",
			yaml: `networkEndpointGroups: [{name: g}]
backendServices:
- name: s
  backends:
  - group: g
  - {group: zones/z/networkEndpointGroups/g, failover: true}
` + gatewayYAML,
			want: []string{
				"6:13: group \"g\" is already attached to service \"s\" at line 5: remove one",
			},
		},
		{
			desc: "an endpoint twice in a group",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.1}
  - {instance: a, ipAddress: 10.0.0.1}
backendServices: [{name: s, backends: [{group: g}]}]
` + gatewayYAML,
			want: []string{
				"5:5: endpoint a with 10.0.0.1 is already in this group at line 4: remove one",
			},
		},
		{
			desc: "an instance with two addresses of a family in a service",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.1}
  - {instance: a, ipAddress: "2001:db8::1"}
- name: h
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.2}
backendServices: [{name: s, backends: [{group: g}, {group: h}]}]
` + gatewayYAML,
			want: []string{
				"8:30: instance a has 10.0.0.2 here and 10.0.0.1 at line 4, both in service",
			},
		},
		{
			desc: "an address with two instances in a service",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 10.0.0.1}
  - {instance: b, ipAddress: 10.0.0.1}
backendServices: [{name: s, backends: [{group: g}]}]
` + gatewayYAML,
			want: []string{
				"5:30: ipAddress 10.0.0.1 is b here and a at line 4, both in service \"s\":",
			},
		},
		{
			desc: "one endpoint in two groups of a service",
			yaml: `networkEndpointGroups:
- {name: g, networkEndpoints: [{instance: a, ipAddress: 10.0.0.1}]}
- {name: h, networkEndpoints: [{instance: a, ipAddress: 10.0.0.1}]}
backendServices: [{name: s, backends: [{group: g}, {group: h, failover: true}]}]
` + gatewayYAML,
			want: []string{
				"3:57: instance a is in service \"s\" twice, by groups g and h: remove it from",
			},
		},
		{
			desc: "addresses that cannot be a backend",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: a, ipAddress: 0.0.0.0}
  - {instance: b, ipAddress: 127.0.0.1}
  - {instance: c, ipAddress: 224.0.0.1}
  - {instance: d, ipAddress: "fe80::1%eth0"}
  - {instance: e, ipAddress: "::ffff:10.0.0.1"}
  - {instance: f, ipAddress: web}
` + gatewayYAML,
			want: []string{
				"4:30: ipAddress \"0.0.0.0\" cannot be reached from another host: use a unicast",
				"5:30: ipAddress \"127.0.0.1\" cannot be reached from another host: use a",
				"6:30: ipAddress \"224.0.0.1\" cannot be reached from another host: use a",
				"7:30: ipAddress \"fe80::1%eth0\" has an interface name: write the address alone",
				"8:30: ipAddress \"::ffff:10.0.0.1\" is an IPv4 address in IPv6 form: write",
				"9:30: ipAddress \"web\" is not an address: write it as 192.0.2.10 or",
			},
		},
		{
			desc: "ALWAYS_PERSIST with PER_SESSION",
			yaml: `backendServices:
- name: s
  connectionTrackingPolicy:
    trackingMode: PER_SESSION
    connectionPersistenceOnUnhealthyBackends: ALWAYS_PERSIST
` + gatewayYAML,
			want: []string{
				"5:47: connectionPersistenceOnUnhealthyBackends \"ALWAYS_PERSIST\" cannot be",
			},
		},
		{
			desc: "an idle timeout where the API has none",
			yaml: `backendServices:
- {name: s, connectionTrackingPolicy: {idleTimeoutSec: 700}}
- {name: t, connectionTrackingPolicy: {idleTimeoutSec: 700, trackingMode: PER_SESSION}}
- {name: u, connectionTrackingPolicy: {idleTimeoutSec: 700}, sessionAffinity: CLIENT_IP}
` + gatewayYAML,
			want: []string{
				"2:56: idleTimeoutSec 700 can differ from 600 only with trackingMode",
				"3:56: idleTimeoutSec 700 can differ from 600 only with trackingMode",
				"4:56: idleTimeoutSec 700 can differ from 600 only with trackingMode",
			},
		},
		{
			desc: "an idle timeout out of the API's range",
			yaml: `backendServices:
- {name: s, sessionAffinity: CLIENT_IP, connectionTrackingPolicy: {idleTimeoutSec: 599, trackingMode: PER_SESSION}}
- {name: t, sessionAffinity: CLIENT_IP, connectionTrackingPolicy: {idleTimeoutSec: 57601, trackingMode: PER_SESSION}}
- {name: u, sessionAffinity: CLIENT_IP, connectionTrackingPolicy: {idleTimeoutSec: 10m, trackingMode: PER_SESSION}}
` + gatewayYAML,
			want: []string{
				"2:84: idleTimeoutSec 599 is out of range: use 600 to 57600, or",
				"3:84: idleTimeoutSec 57601 is out of range: use 600 to 57600, or",
				"4:84: idleTimeoutSec \"10m\" has a unit: write the number of seconds alone,",
			},
		},
		{
			desc: "our own timeouts out of range",
			yaml: `backendServices:
- {name: s, l4lb: {idleTimeoutSec: 0, failoverDrainTimeoutSec: 3601}}
- {name: t, l4lb: {idleTimeoutSec: 57601}, connectionDraining: {drainingTimeoutSec: 3601}}
` + gatewayYAML,
			want: []string{
				"2:36: idleTimeoutSec \"0\" is out of range: use 1 to 57600",
				"2:64: failoverDrainTimeoutSec \"3601\" is out of range: use 0 to 3600",
				"3:36: idleTimeoutSec \"57601\" is out of range: use 1 to 57600",
				"3:85: drainingTimeoutSec \"3601\" is out of range: use 0 to 3600",
			},
		},
		{
			desc: "ratios outside 0 to 1",
			yaml: `backendServices:
- {name: s, failoverPolicy: {failoverRatio: 1.01}}
- {name: t, failoverPolicy: {failoverRatio: -0.5}}
- {name: u, failoverPolicy: {failoverRatio: .nan}}
- {name: v, failoverPolicy: {failoverRatio: 50%}}
- {name: w, failoverPolicy: {dropTrafficIfUnhealthy: 1}}
` + gatewayYAML,
			want: []string{
				"2:45: failoverRatio \"1.01\" is out of range: use 0.0 to 1.0",
				"3:45: failoverRatio \"-0.5\" is out of range: use 0.0 to 1.0",
				"4:45: failoverRatio \".nan\" is not a ratio: use a decimal number from 0.0 to",
				"5:45: failoverRatio \"50%\" is not a ratio: use a decimal number from 0.0 to 1.0",
				"6:54: dropTrafficIfUnhealthy \"1\" is not a boolean: write true or false,",
			},
		},
		{
			desc: "a spillover ratio without the spill",
			yaml: `backendServices:
- {name: s, networkPassThroughLbTrafficPolicy: {zonalAffinity: {spilloverRatio: 0.5}}}
- {name: t, networkPassThroughLbTrafficPolicy: {zonalAffinity: {spilloverRatio: 0, spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}}
- {name: u, networkPassThroughLbTrafficPolicy: {zonalAffinity: {spilloverRatio: 2, spillover: ZONAL_AFFINITY_SPILL_CROSS_ZONE}}}
- {name: v, networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: SPILL}}}
` + gatewayYAML,
			want: []string{
				"2:81: spilloverRatio has no meaning with spillover ZONAL_AFFINITY_DISABLED:",
				"3:81: spilloverRatio has no meaning with spillover",
				"4:81: spilloverRatio \"2\" is out of range: use 0.0 to 1.0",
				"5:76: spillover \"SPILL\" is not one of ZONAL_AFFINITY_DISABLED,",
			},
		},
		{
			desc: "zonal affinity with subsetting",
			yaml: `backendServices:
- name: s
  subsetting: {policy: CONSISTENT_HASH_SUBSETTING}
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}
` + gatewayYAML,
			want: []string{
				"3:24: subsetting \"CONSISTENT_HASH_SUBSETTING\" excludes zonal affinity: remove",
				"3:24: subsetting \"CONSISTENT_HASH_SUBSETTING\" is not supported yet: use NONE",
			},
		},
		{
			desc: "subsetting, logs and haPolicy that come later",
			yaml: `backendServices:
- {name: s, l4lb: {forwarding: IPIP, probe: vip}, subsetting: {policy: CONSISTENT_HASH_SUBSETTING}}
- {name: t, l4lb: {forwarding: GUE, probe: direct}, logConfig: {enable: true, sampleRate: 1.0, optionalMode: CUSTOM, optionalFields: [rtt]}}
- {name: u, l4lb: {forwarding: GENEVE}, haPolicy: {fastIPMove: GARP_RA}}
` + gatewayYAML,
			want: []string{
				"2:72: subsetting \"CONSISTENT_HASH_SUBSETTING\" is not supported yet: use NONE",
				"3:73: logConfig.enable true is not supported yet on a backend service: use",
				"4:41: haPolicy is not supported yet: remove it",
			},
		},
	})
}
