package controller

import (
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// zoneNames lists the zones of clients and of backends.
func zoneNames(cfg *lb.Config) []string {
	var names []string
	for _, z := range cfg.Clients.Zones {
		names = append(names, z.Name)
	}
	for _, g := range cfg.Groups {
		if g.Zone != "" {
			names = append(names, g.Zone)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// zoneID is the id of a zone, 0 for none.
func (e *Engine) zoneID(name string) uint8 { return uint8(e.zoneIDs.byName[name]) }

// writeZones replaces the client zones where they changed. Ids of zones that
// are no longer named are given back.
func (e *Engine) writeZones() error {
	if !e.zonesDirty {
		return nil
	}
	names := zoneNames(e.cfg)
	for name := range e.zoneIDs.byName {
		if _, found := slices.BinarySearch(names, name); !found {
			if err := e.zoneIDs.free(name); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if _, _, err := e.zoneIDs.get(name); err != nil {
			return err
		}
	}
	list := e.zonePrefixes()
	if e.zones == nil || !slices.Equal(list, e.zones) {
		if err := e.dp.SetZones(list); err != nil {
			return err
		}
		e.zones = list
	}
	e.zonesDirty = false
	return nil
}

func (e *Engine) zonePrefixes() []loader.ZonePrefix {
	list := []loader.ZonePrefix{}
	for _, z := range e.cfg.Clients.Zones {
		for _, p := range z.ClientRanges {
			list = append(list, loader.ZonePrefix{Prefix: p, Zone: e.zoneID(z.Name)})
		}
	}
	for _, p := range e.cfg.Clients.Incompatible {
		list = append(list, loader.ZonePrefix{Prefix: p, Overrides: true})
	}
	for _, p := range e.cfg.Clients.OtherRegion {
		list = append(list, loader.ZonePrefix{Prefix: p, OtherRegion: true, Overrides: true})
	}
	return list
}

// clientZoneNames are the zones that clients can be in, in a fixed order.
func clientZoneNames(cfg *lb.Config) []string {
	names := make([]string, len(cfg.Clients.Zones))
	for i, z := range cfg.Clients.Zones {
		names[i] = z.Name
	}
	return names
}
