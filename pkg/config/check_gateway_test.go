package config

import "testing"

func TestRefusedGateways(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "no gateway at all",
			yaml: `routes: []
`,
			want: []string{
				"1:1: the configuration has no l4lb.gateway: add it with a name and interfaces",
			},
		},
		{
			desc: "a gateway without name and interfaces",
			yaml: `l4lb:
  gateway: {region: r}
`,
			want: []string{
				"2:3: gateway without interfaces: add interfaces: [eth0], the links that",
				"2:3: gateway without name: add name: gw-1",
			},
		},
		{
			desc: "interface names",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0, "", eth0, a-name-too-long-for-linux, a/b, "a b", .]
`,
			want: []string{
				"4:24: interfaces \"\" is empty: name an interface such as eth0",
				"4:28: interfaces \"eth0\" is listed twice: remove one",
				"4:34: interfaces \"a-name-too-long-for-linux\" is longer than an interface name",
				"4:61: interfaces \"a/b\" is not an interface name: use a name that `ip link`",
				"4:66: interfaces \"a b\" is not an interface name: use a name that `ip link`",
				"4:73: interfaces \".\" is not an interface name: use a name that `ip link` shows",
			},
		},
		{
			desc: "modes, sizes and seeds out of range",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0]
    xdpMode: offload
    flowTable: {entries: 1000}
    hashSeed: 0x1ffffffffffffffff
`,
			want: []string{
				"5:14: xdpMode \"offload\" is not one of native, generic",
				"6:26: entries \"1000\" is out of range: use 1024 to 134217728",
				"7:15: hashSeed \"0x1ffffffffffffffff\" is not a 64-bit number: write 0 to",
			},
		},
		{
			desc: "flow table above its maximum",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0]
    flowTable: {entries: 134217729}
    hashSeed: -1
`,
			want: []string{
				"5:26: entries \"134217729\" is out of range: use 1024 to 134217728",
				"6:15: hashSeed \"-1\" is not a 64-bit number: write 0 to 18446744073709551615,",
			},
		},
		{
			desc: "listeners that are neither a socket nor an address",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0]
    adminListen: unix:run/admin.sock
    metricsListen: example.com:9464
`,
			want: []string{
				"5:18: adminListen \"unix:run/admin.sock\" is not an absolute path: write it as",
				"6:20: metricsListen \"example.com:9464\" does not begin with an address: write",
			},
		},
		{
			desc: "listeners with wrong ports",
			yaml: `l4lb:
  gateway:
    name: gw-1
    interfaces: [eth0]
    adminListen: 127.0.0.1
    metricsListen: 127.0.0.1:0
`,
			want: []string{
				"5:18: adminListen \"127.0.0.1\" is not a place to listen: write it as",
				"6:20: metricsListen \"127.0.0.1:0\" has a wrong port: use 1 to 65535",
			},
		},
		{
			desc: "admin and metrics on one port",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0], adminListen: "127.0.0.1:9464"}
`,
			want: []string{
				"2:58: adminListen \"127.0.0.1:9464\" is metricsListen too: give each its own",
			},
		},
		{
			desc: "an empty admin listener",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0], adminListen: ""}
`,
			want: []string{
				"2:58: adminListen \"\" is not a place to listen: write it as",
			},
		},
		{
			desc: "prefixes that are in two places",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones:
  - {name: zone-a, clientRanges: [10.1.0.0/16, 10.1.0.0/16]}
  - {name: zone-b, clientRanges: [10.1.0.0/16, 10.1.0.0/17]}
  incompatibleClientRanges: [10.1.0.0/17]
  otherRegionClientRanges: [10.1.0.0/16, 10.0.0.0/8]
`,
			want: []string{
				"4:48: range 10.1.0.0/16 of zone \"zone-a\" is already in zone \"zone-a\" at line",
				"5:35: range 10.1.0.0/16 of zone \"zone-b\" is already in zone \"zone-a\" at line",
				"6:30: range 10.1.0.0/17 of incompatibleClientRanges is already in zone",
				"7:29: range 10.1.0.0/16 of otherRegionClientRanges is already in zone",
			},
		},
		{
			desc: "prefixes that are not well formed",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones:
  - clientRanges: [10.1.2.0/16, 10.1.2.3, "2001:db8::1/64", "::ffff:10.0.0.0/104", zone]
`,
			want: []string{
				"4:5: zone without name: add name: zone-a",
				"4:20: clientRanges \"10.1.2.0/16\" has host bits set: write 10.1.0.0/16",
				"4:33: clientRanges \"10.1.2.3\" has no prefix length: write 10.1.2.3/32 for",
				"4:43: clientRanges \"2001:db8::1/64\" has host bits set: write 2001:db8::/64",
				"4:61: clientRanges \"::ffff:10.0.0.0/104\" is an IPv4 network in IPv6 form:",
				"4:84: clientRanges \"zone\" is not a network: write it as 10.1.0.0/16 or",
			},
		},
		{
			desc: "two zones of one name",
			yaml: `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones: [{name: a}, {name: a}]
`,
			want: []string{
				"3:29: duplicate name \"a\": line 3 has a zone of that name, rename one",
			},
		},
	})
}
