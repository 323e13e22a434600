package replay

// headYAML is where clients are, and how the backends of all tests are checked.
const headYAML = `
l4lb:
  gateway: {name: gw-1, interfaces: [eth0], flowTable: {entries: 4096}}
  zones:
  - {name: zone-a, clientRanges: [10.1.0.0/16, "2001:db8:a::/48"]}
  - {name: zone-b, clientRanges: [10.2.0.0/16, "2001:db8:b::/48"]}
  incompatibleClientRanges: [10.1.77.0/24]
  otherRegionClientRanges: [10.99.0.0/16]
healthChecks:
- {name: hc, type: TCP, tcpHealthCheck: {port: 80}}
`

// zonalYAML has one backend in each zone; clients with a zone stay in it.
const zonalYAML = headYAML + `
networkEndpointGroups:
- name: web-a
  zone: zone-a
  networkEndpoints:
  - {instance: web-a-1, ipAddress: 10.1.0.11}
  - {instance: web-a-1, ipAddress: "2001:db8:a::11"}
- name: web-b
  zone: zone-b
  networkEndpoints:
  - {instance: web-b-1, ipAddress: 10.2.0.11}
  - {instance: web-b-1, ipAddress: "2001:db8:b::11"}
- {name: nobody, zone: zone-a}
backendServices:
- name: web
  protocol: UNSPECIFIED
  healthChecks: [hc]
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}
  backends: [{group: web-a}, {group: web-b}]
- {name: void, healthChecks: [hc], backends: [{group: nobody}]}
forwardingRules:
- {name: web-tcp, IPAddress: 192.0.2.10, ports: [80], backendService: web}
- {name: web-udp, IPAddress: 192.0.2.10, IPProtocol: UDP, allPorts: true, backendService: web}
- {name: web-tcp6, IPAddress: "2001:db8:f::10", ports: [80], backendService: web}
- {name: void-tcp, IPAddress: 192.0.2.11, ports: [80], backendService: void}
`

// pairRulesYAML is the frontend of the two configurations below.
const pairRulesYAML = `
forwardingRules:
- {name: web-tcp, IPAddress: 192.0.2.10, ports: [80], backendService: web}
- {name: web-udp, IPAddress: 192.0.2.10, IPProtocol: UDP, allPorts: true, backendService: web}
`

// pairYAML has two groups of one backend each, both for everybody.
const pairYAML = headYAML + `
networkEndpointGroups:
- name: one
  networkEndpoints: [{instance: web-1, ipAddress: 10.1.0.11}]
- name: two
  networkEndpoints: [{instance: web-2, ipAddress: 10.2.0.11}]
backendServices:
- name: web
  protocol: UNSPECIFIED
  healthChecks: [hc]
  connectionDraining: {drainingTimeoutSec: 300}
  backends: [{group: one}, {group: two}]
` + pairRulesYAML

// failoverYAML has a primary and a failover backend. Connections of the pool
// that was left stay for 300 s.
const failoverYAML = headYAML + `
networkEndpointGroups:
- name: one
  networkEndpoints: [{instance: web-1, ipAddress: 10.1.0.11}]
- name: spare
  networkEndpoints: [{instance: spare-1, ipAddress: 10.2.0.11}]
backendServices:
- name: web
  protocol: UNSPECIFIED
  healthChecks: [hc]
  failoverPolicy: {disableConnectionDrainOnFailover: false}
  backends: [{group: one}, {group: spare, failover: true}]
` + pairRulesYAML
