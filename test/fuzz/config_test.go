package fuzz

// instances are the backends of configuration.
var instances = []string{"a-1", "a-2", "b-1", "b-2", "spare-1", "far-1", "far-2"}

// configuration has something of everything: both families, rules for single
// ports, for all ports and for every protocol, a /96, all kinds of tracking
// keys, zones, clients of another region, source ranges, limits, routes and tunnels.
const configuration = `
l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones:
  - {name: zone-a, clientRanges: [10.1.0.0/16, "2001:db8:a::/48"]}
  - {name: zone-b, clientRanges: [10.2.0.0/16, "2001:db8:b::/48"]}
  incompatibleClientRanges: [10.200.0.0/16]
  otherRegionClientRanges: [10.99.0.0/16, "2001:db8:99::/48"]
networkEndpointGroups:
- name: a
  zone: zone-a
  networkEndpoints:
  - {instance: a-1, ipAddress: 10.1.0.11}
  - {instance: a-2, ipAddress: 10.1.0.12}
  - {instance: a-1, ipAddress: "2001:db8:a::11"}
  - {instance: a-2, ipAddress: "2001:db8:a::12"}
- name: b
  zone: zone-b
  networkEndpoints:
  - {instance: b-1, ipAddress: 10.2.0.11}
  - {instance: b-2, ipAddress: 10.2.0.12}
  - {instance: b-1, ipAddress: "2001:db8:b::11"}
  - {instance: b-2, ipAddress: "2001:db8:b::12"}
- name: spare
  networkEndpoints:
  - {instance: spare-1, ipAddress: 10.3.0.11}
  - {instance: spare-1, ipAddress: "2001:db8:3::11"}
- name: far
  zone: zone-b
  networkEndpoints:
  - {instance: far-1, ipAddress: 10.4.0.11}
  - {instance: far-2, ipAddress: 10.4.0.12, l4lb: {tunnelAddress: "2001:db8:4::12"}}
  - {instance: far-1, ipAddress: "2001:db8:4::11"}
  - {instance: far-2, ipAddress: "2001:db8:4::14", l4lb: {tunnelAddress: 10.4.0.14}}
backendServices:
- {name: ipip, protocol: UNSPECIFIED, backends: [{group: far}], l4lb: {forwarding: IPIP}}
- {name: gue, protocol: UNSPECIFIED, backends: [{group: far}], l4lb: {forwarding: GUE}}
- {name: geneve, protocol: UNSPECIFIED, backends: [{group: far}], l4lb: {forwarding: GENEVE}}
- name: any
  protocol: UNSPECIFIED
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_SPILL_CROSS_ZONE}}
  backends: [{group: a}, {group: b}, {group: spare, failover: true}]
- name: sticky
  protocol: UNSPECIFIED
  sessionAffinity: CLIENT_IP
  connectionTrackingPolicy: {trackingMode: PER_SESSION}
  backends: [{group: a}, {group: b}]
- name: client
  protocol: UNSPECIFIED
  sessionAffinity: CLIENT_IP_NO_DESTINATION
  connectionTrackingPolicy: {trackingMode: PER_SESSION}
  backends: [{group: b}]
- name: drops
  protocol: UNSPECIFIED
  failoverPolicy: {dropTrafficIfUnhealthy: true}
  backends: [{group: spare}]
forwardingRules:
- {name: tcp4, IPAddress: 192.0.2.10, IPProtocol: TCP, ports: [80, 443], backendService: any}
- {name: udp4, IPAddress: 192.0.2.10, IPProtocol: UDP, allPorts: true, backendService: any, allowGlobalAccess: true}
- {name: l3-4, IPAddress: 192.0.2.11, IPProtocol: L3_DEFAULT, backendService: any}
- {name: l3-4-dns, IPAddress: 192.0.2.11, IPProtocol: UDP, ports: [53], backendService: sticky}
- {name: sticky4, IPAddress: 192.0.2.12, IPProtocol: TCP, allPorts: true, backendService: sticky}
- {name: client4, IPAddress: 192.0.2.13, IPProtocol: L3_DEFAULT, backendService: client}
- {name: drops4, IPAddress: 192.0.2.14, IPProtocol: TCP, ports: [80], backendService: drops}
- name: narrow4
  IPAddress: 192.0.2.15
  IPProtocol: L3_DEFAULT
  backendService: sticky
  l4lb: {allowedSourceRanges: [10.1.0.0/16, 198.51.100.0/25]}
- name: slow4
  IPAddress: 192.0.2.16
  IPProtocol: L3_DEFAULT
  backendService: any
  l4lb: {newFlowsPerSecond: 20, newFlowsBurst: 2, newFlowsPerSecondPerSource: 10, newFlowsBurstPerSource: 2, sourcePrefixLength: 24}
- {name: tcp6, IPAddress: "2001:db8:f::10", IPProtocol: TCP, ports: [80, 443], backendService: any}
- {name: udp6, IPAddress: "2001:db8:f::10", IPProtocol: UDP, allPorts: true, backendService: any}
- {name: l3-6, IPAddress: "2001:db8:f::11", IPProtocol: L3_DEFAULT, backendService: any}
- {name: sticky6, IPAddress: "2001:db8:f::12", IPProtocol: TCP, allPorts: true, backendService: sticky}
- {name: wide6, IPAddress: "2001:db8:f:0:1::/96", IPProtocol: L3_DEFAULT, backendService: client}
- {name: wide6-web, IPAddress: "2001:db8:f:0:1::/96", IPProtocol: TCP, ports: [80], backendService: any}
- name: narrow6
  IPAddress: "2001:db8:f::15"
  IPProtocol: L3_DEFAULT
  backendService: sticky
  l4lb: {allowedSourceRanges: ["2001:db8:a::/48"], newFlowsPerSecondPerSource: 50, newFlowsBurstPerSource: 2}
- {name: ipip4, IPAddress: 192.0.2.17, IPProtocol: L3_DEFAULT, backendService: ipip}
- {name: gue4, IPAddress: 192.0.2.18, IPProtocol: L3_DEFAULT, backendService: gue}
- {name: geneve4, IPAddress: 192.0.2.19, IPProtocol: L3_DEFAULT, backendService: geneve}
- {name: ipip6, IPAddress: "2001:db8:f::17", IPProtocol: L3_DEFAULT, backendService: ipip}
- {name: gue6, IPAddress: "2001:db8:f::18", IPProtocol: L3_DEFAULT, backendService: gue}
- {name: geneve6, IPAddress: "2001:db8:f::19", IPProtocol: L3_DEFAULT, backendService: geneve}
routes:
- {name: r4-far, destRange: 203.0.113.128/26, nextHopIlb: gue4}
- {name: r4, destRange: 203.0.113.0/25, nextHopIlb: l3-4}
- {name: r4-narrow, destRange: 203.0.113.0/26, nextHopIlb: narrow4, l4lb: {sourceRanges: [10.1.0.0/16]}}
- {name: r6, destRange: "2001:db8:e::/64", nextHopIlb: l3-6}
`
