// Package controller turns configuration, health and neighbours into the
// contents of the data plane's maps. Engine is the state machine: every input is
// a method, time is an argument, and Reconcile writes what changed. Controller
// runs it in the daemon's one goroutine that writes maps.
package controller

import (
	"net/netip"
	"time"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/loader"
)

// Datapath is what the engine writes to; *loader.Datapath is one.
type Datapath interface {
	SetMember(id uint32, m loader.Member) error
	Member(id uint32) loader.Member
	MemberCapacity() uint32
	SetRule(id uint32, r loader.Rule) error
	Rule(id uint32) loader.Rule
	RuleCapacity() uint32
	ServiceCapacity() uint32
	StatSlots() uint32
	TableCapacity() uint32
	ClearTraffic(record uint32) error

	NewTable(slots []uint32) (uint32, error)
	DeleteTable(id uint32) error
	SetPick(service, zone, table uint32) error
	SetFrontends(list []loader.Frontend) error
	SetRoutes(list []loader.Route) error
	SetZones(list []loader.ZonePrefix) error
	// Settle returns when no packet is left that saw the maps as they were
	// before the call.
	Settle()

	NewRanges(list []netip.Prefix) (uint32, error)
	DeleteRanges(id uint32) error
	RangeCapacity() uint32
	SetAdmission(rule uint32, a loader.Admission) error
	ClearRefused(rule uint32) error
	AmendFlows(f func(conntrack.Record) (rule uint32))

	SetName(kind loader.NameKind, id uint32, name string) error
	DeleteName(kind loader.NameKind, id uint32) error
	Names(kind loader.NameKind) (map[uint32]string, error)

	Ticks(d time.Duration) uint32
}
