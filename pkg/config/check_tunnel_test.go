package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func TestRefusedTunnels(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "keys of another kind",
			yaml: `backendServices:
- {name: a, l4lb: {guePort: 6080}}
- {name: b, l4lb: {forwarding: IPIP, genevePort: 6081, geneveVni: 7}}
- {name: c, l4lb: {forwarding: GUE, geneveVni: 7}}
- {name: d, l4lb: {forwarding: L2, mssClamp: true}}
- {name: e, l4lb: {mssClamp: false}}
` + gatewayYAML,
			want: []string{
				"2:29: guePort has no meaning with forwarding L2: remove it, or use forwarding GUE",
				"3:50: genevePort has no meaning with forwarding IPIP: remove it, or use forwarding GENEVE",
				"3:67: geneveVni has no meaning with forwarding IPIP: remove it, or use forwarding GENEVE",
				"4:48: geneveVni has no meaning with forwarding GUE: remove it, or use forwarding GENEVE",
				"5:46: mssClamp true has no meaning with forwarding L2, which makes no packet longer: remove it, or use IPIP, GUE or GENEVE",
			},
		},
		{
			desc: "values out of range",
			yaml: `backendServices:
- {name: a, l4lb: {forwarding: GUE, guePort: 0}}
- {name: b, l4lb: {forwarding: GENEVE, genevePort: 65536, geneveVni: 16777216, mssClamp: 1400}}
` + gatewayYAML,
			want: []string{
				"2:46: guePort \"0\" is out of range: use 1 to 65535",
				"3:52: genevePort \"65536\" is out of range: use 1 to 65535",
				"3:70: geneveVni \"16777216\" is out of range: use 0 to 16777215",
				"3:90: mssClamp \"1400\" is not a boolean",
			},
		},
		{
			desc: "sources that cannot be",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0]
    tunnelSources:
    - 10.0.0.0/29
    - 10.0.1.0/29
    - "2001:db8::/48"
    - 10.0.0.1/29
    - 0.0.0.0/0
    - 224.0.0.0/8
    - 10.0.0.1
`,
			want: []string{
				"7:7: tunnelSources 10.0.1.0/29 has the family of 10.0.0.0/29: list one prefix of a family",
				"8:7: tunnelSources \"2001:db8::/48\" is larger than flows can be told apart by: use a /64 or longer",
				"9:7: tunnelSources \"10.0.0.1/29\" has host bits set: write 10.0.0.0/29",
				"10:7: tunnelSources \"0.0.0.0/0\" holds addresses that are no host's: use a /8 or longer",
				"11:7: tunnelSources \"224.0.0.0/8\" cannot be reached from another host",
				"12:7: tunnelSources \"10.0.0.1\" has no prefix length: write 10.0.0.1/32 for this one address",
			},
		},
		{
			desc: "tunnels that end at nobody or at a VIP",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: i, ipAddress: 10.9.0.11, l4lb: {tunnelAddress: 192.0.2.10}}
  - {instance: j, ipAddress: 10.9.0.12, l4lb: {tunnelAddress: 127.0.0.1}}
  - {instance: k, ipAddress: 10.9.0.13, l4lb: {tunnelAdress: 10.9.0.14}}
backendServices:
- {name: s, backends: [{group: g}], l4lb: {forwarding: IPIP}}
forwardingRules:
- {name: r, IPAddress: 192.0.2.10, ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"4:63: tunnelAddress 192.0.2.10 belongs to forwarding rule \"r\": write the backend's own address",
				"5:63: tunnelAddress \"127.0.0.1\" cannot be reached from another host",
				"6:48: unknown key \"tunnelAdress\": did you mean tunnelAddress?",
			},
		},
		{
			desc: "a rule's family that only some backends have",
			yaml: `networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: i, ipAddress: 10.9.0.11}
  - {instance: j, ipAddress: 10.9.0.12}
  - {instance: j, ipAddress: "2001:db8:9::12"}
backendServices:
- {name: s, backends: [{group: g}], l4lb: {forwarding: IPIP}}
forwardingRules:
- {name: r, IPAddress: 192.0.2.10, ports: [80], backendService: s}
- {name: r6, IPAddress: "2001:db8:f::10", ports: [80], backendService: s}
` + gatewayYAML,
			want: []string{
				"11:25: IPAddress 2001:db8:f::10 is IPv6, which some backends of service \"s\" have an address of and i does not: add an endpoint with one, or give none of them one",
			},
		},
	})
}

func TestTunnelsAreAccepted(t *testing.T) {
	doc, err := Parse("f", []byte(`l4lb:
  gateway: {name: gw-1, interfaces: [eth0], tunnelSources: [10.0.0.0/29, "2001:db8:1::/64"]}
networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: i, ipAddress: 10.9.0.11, l4lb: {tunnelAddress: "2001:db8:9::11"}}
  - {instance: j, ipAddress: 10.9.0.12}
backendServices:
- {name: ipip, backends: [{group: g}], l4lb: {forwarding: IPIP, mssClamp: true}}
- {name: gue, backends: [{group: g}], l4lb: {forwarding: GUE}}
- {name: gue-port, backends: [{group: g}], l4lb: {forwarding: GUE, guePort: 19523}}
- {name: geneve, backends: [{group: g}], l4lb: {forwarding: GENEVE}}
- {name: geneve-vni, backends: [{group: g}], l4lb: {forwarding: GENEVE, genevePort: 7000, geneveVni: 16777215}}
forwardingRules:
- {name: r, IPAddress: "2001:db8:f::10", ports: [80], backendService: ipip}
`))
	if err != nil || len(doc.Warnings) != 0 {
		t.Fatalf("%v, warnings %v", err, doc.Warnings)
	}
	got := map[string]lb.TunnelOptions{}
	for _, s := range doc.Config.Services {
		got[s.Name] = s.Tunnel
	}
	want := map[string]lb.TunnelOptions{
		"ipip": {ClampMSS: true}, "gue": {Port: 6080}, "gue-port": {Port: 19523},
		"geneve": {Port: 6081}, "geneve-vni": {Port: 7000, VNI: 1<<24 - 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tunnels (-want +got):\n%s", diff)
	}
	b := doc.Config.Backends(&doc.Config.Services[0])
	for i, want := range []string{"2001:db8:9::11", "10.9.0.12"} {
		if got := b[i].SentTo(lb.ForwardGUE); got != netip.MustParseAddr(want) {
			t.Errorf("packets to %s are sent to %s, want %s", b[i].Instance, got, want)
		}
		if got := b[i].SentTo(lb.ForwardL2); got != b[i].Addr {
			t.Errorf("without a tunnel packets to %s are sent to %s", b[i].Instance, got)
		}
	}
	if n := len(doc.Config.Gateway.TunnelSources); n != 2 {
		t.Errorf("%d sources, want 2", n)
	}
}

func TestTunnelSettingsWithoutEffectAreToldOf(t *testing.T) {
	doc, err := Parse("f", []byte(`l4lb:
  gateway: {name: gw-1, interfaces: [eth0], tunnelSources: [10.0.0.0/29]}
networkEndpointGroups:
- name: g
  networkEndpoints:
  - {instance: i, ipAddress: 10.9.0.11, l4lb: {tunnelAddress: 10.9.1.11}}
- name: h
  networkEndpoints:
  - {instance: j, ipAddress: 10.9.0.12, l4lb: {tunnelAddress: 10.9.1.12}}
backendServices:
- {name: s, backends: [{group: g}]}
- {name: t, backends: [{group: h}], l4lb: {forwarding: GUE}}
`))
	if err != nil || len(doc.Warnings) != 2 {
		t.Fatalf("%v, warnings %v", err, doc.Warnings)
	}
}
