package replay

import (
	"net/netip"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

const (
	// smallestPacket is what a packet takes of a capture file at least: a
	// pcap record header and an Ethernet header.
	smallestPacket = 16 + 14
	minFlows       = 4096
	spare          = 16 // ids more than are counted
	// flowSeed is fixed, so that two replays find the same places taken.
	flowSeed = 0x4c346c62
)

// datapathOptions sizes an unpinned data plane so that every configuration of
// the scenario fits, each after all those before it.
func datapathOptions(configs []*lb.Config, captureSize int64) loader.Options {
	o := loader.Options{
		Virtual: true, SelectSeed: configs[0].Gateway.HashSeed, FlowSeed: flowSeed, EchoPerSecond: echoPerSecond,
		FlowEntries: flowEntries(configs[0].Gateway.FlowTable.Entries, captureSize),
		Members:     spare, Rules: spare, Services: spare, Frontends: spare, ZoneNodes: spare, StatSlots: 1,
	}
	tables := 0
	for _, cfg := range configs {
		perService := map[string]uint32{}
		records := len(cfg.Rules)
		for i := range cfg.Rules {
			records += len(cfg.Rules[i].Ports)
			perService[cfg.Rules[i].Service]++
			o.StatSlots = max(o.StatSlots, perService[cfg.Rules[i].Service])
		}
		for i := range cfg.Services {
			o.Members += uint32(len(cfg.Backends(&cfg.Services[i])))
		}
		o.Rules += uint32(len(cfg.Rules) + len(cfg.NextHops()))
		o.Frontends = max(o.Frontends, uint32(records/2))
		o.ZoneNodes = max(o.ZoneNodes, zoneNodes(&cfg.Clients))
		// Backends of both address families make two of a service.
		o.Services += uint32(2 * len(cfg.Services))
		tables = max(tables, len(cfg.Services)*(zonesOf(cfg)+1))
	}
	// The data plane holds four selection tables for each service: those of
	// two address families, and old ones while they are replaced.
	o.Services = max(o.Services, uint32(tables+spare))
	return o
}

// zonesOf counts the zones of clients and of backends.
func zonesOf(cfg *lb.Config) int {
	names := map[string]bool{}
	for _, z := range cfg.Clients.Zones {
		names[z.Name] = true
	}
	for _, g := range cfg.Groups {
		names[g.Zone] = true
	}
	return len(names)
}

// flowEntries is the configured number, or less where the capture cannot have
// so many flows: it then has room to spare, so that none is displaced.
func flowEntries(configured uint32, captureSize int64) uint32 {
	return uint32(min(int64(configured), max(2*captureSize/smallestPacket, minFlows)))
}

// zoneNodes bounds the nodes of the trie of client ranges: one for each byte of
// a prefix but its last, and the two roots.
func zoneNodes(m *lb.ClientMap) uint32 {
	n := uint32(spare)
	add := func(list []netip.Prefix) {
		for _, p := range list {
			n += uint32(p.Bits() / 8)
		}
	}
	for _, z := range m.Zones {
		add(z.ClientRanges)
	}
	add(m.Incompatible)
	add(m.OtherRegion)
	return n
}
