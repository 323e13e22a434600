package controller

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// writeTables fills tables for sets that have none, publishes the picks that
// changed, and adds tables that are no longer picked to stale. Zones with equal
// sets share a table.
func (e *Engine) writeTables(s *service, zones []string, stale *[]uint32) error {
	tables := make(map[string]uint32, len(s.plan.Sets))
	ids := make([]uint32, len(s.plan.Sets))
	for i, set := range s.plan.Sets {
		key := e.tableKey(s, set)
		id, ok := s.tables[key]
		if !ok {
			var err error
			if id, err = e.newTable(s, set); err != nil {
				return err
			}
		}
		ids[i], tables[key] = id, id
	}
	if err := e.writePicks(s, ids, zones); err != nil {
		return err
	}
	for key, id := range s.tables {
		if _, ok := tables[key]; !ok && id != 0 {
			*stale = append(*stale, id)
		}
	}
	s.tables = tables
	return nil
}

// writePicks publishes the tables, ids by set, for every client zone. Zones
// that no client is in have the table of clients without a zone.
func (e *Engine) writePicks(s *service, ids []uint32, zones []string) error {
	tableOf := func(set int) uint32 {
		if set == selector.NoSet {
			return 0
		}
		return ids[set]
	}
	var picks [loader.ZoneMax]uint32
	for zone := range picks {
		picks[zone] = tableOf(s.plan.NoZone)
	}
	for i, name := range zones {
		picks[e.zoneID(name)] = tableOf(s.plan.Zones[i])
	}
	for zone, table := range picks {
		if table == s.picks[zone] {
			continue
		}
		if err := e.dp.SetPick(s.id, uint32(zone), table); err != nil {
			return err
		}
		s.picks[zone], s.moved = table, true
	}
	return nil
}

func (e *Engine) newTable(s *service, set selector.Set) (uint32, error) {
	filled, err := e.fills.fill(s.cfg.LocalityLbPolicy, set.Table, e.cfg.Gateway.HashSeed)
	if err != nil {
		return 0, fmt.Errorf("backend service %q: %w", s.name, err)
	}
	if filled == nil {
		return 0, nil
	}
	ids := make([]uint32, len(set.Members))
	for k, i := range set.Members {
		ids[k] = s.order[i].id
	}
	slots := make([]uint32, len(filled))
	for i, k := range filled {
		slots[i] = ids[k]
	}
	id, err := e.dp.NewTable(slots)
	if err != nil {
		return 0, fmt.Errorf("backend service %q: %w", s.name, err)
	}
	return id, nil
}

// fillsKept bounds the memory of a fillCache, at 256 KiB each.
const fillsKept = 32

// fillCache remembers the newest fillings. Filling is the slow part of a change,
// and the services of a host, and both families of each, often have the same
// backends; a backend that flaps brings back what was before.
type fillCache struct {
	compute func(lb.LocalityLbPolicy, []selector.TableMember, uint64) ([]uint32, error)
	slots   map[[sha256.Size]byte][]uint32
	oldest  [][sha256.Size]byte
}

func newFillCache() fillCache {
	return fillCache{compute: selector.Fill, slots: map[[sha256.Size]byte][]uint32{}}
}

// fill is selector.Fill. The caller does not change what it returns.
func (c *fillCache) fill(policy lb.LocalityLbPolicy, members []selector.TableMember, seed uint64) ([]uint32, error) {
	key := fillKey(policy, members, seed)
	if slots, ok := c.slots[key]; ok {
		return slots, nil
	}
	slots, err := c.compute(policy, members, seed)
	if err != nil {
		return nil, err
	}
	if len(c.oldest) == fillsKept {
		delete(c.slots, c.oldest[0])
		c.oldest = c.oldest[1:]
	}
	c.slots[key], c.oldest = slots, append(c.oldest, key)
	return slots, nil
}

func fillKey(policy lb.LocalityLbPolicy, members []selector.TableMember, seed uint64) [sha256.Size]byte {
	text := make([]byte, 0, 64+32*len(members))
	text = append(append(text, policy...), 0)
	text = binary.LittleEndian.AppendUint64(text, seed)
	for _, m := range members {
		text = append(append(text, m.Name...), 0)
		if policy.Weighted() {
			text = binary.LittleEndian.AppendUint64(text, m.Weight)
		}
	}
	return sha256.Sum256(text)
}

// tableKey is equal for sets whose tables are equal.
func (e *Engine) tableKey(s *service, set selector.Set) string {
	key := make([]byte, 0, 64+12*len(set.Members))
	key = append(key, s.cfg.LocalityLbPolicy...)
	key = binary.LittleEndian.AppendUint64(key, e.cfg.Gateway.HashSeed)
	weighted := s.cfg.LocalityLbPolicy.Weighted()
	for k, i := range set.Members {
		key = binary.LittleEndian.AppendUint32(key, s.order[i].id)
		if weighted {
			key = binary.LittleEndian.AppendUint64(key, set.Table[k].Weight)
		}
	}
	return string(key)
}
