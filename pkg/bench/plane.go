package bench

import (
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// The data plane that is measured: 4 services of 25 backends in 3 zones; each
// has 4 of the 16 VIPs, and each VIP a TCP and a UDP rule in both families.
const (
	services        = 4
	serviceMembers  = 25
	serviceVIPs     = vips / services
	zones           = networks - 1
	rulesPerVIP     = 4
	rulesPerService = serviceVIPs * rulesPerVIP
	idle            = 600 * time.Second
)

// plan holds the selection tables, which are the same in every round: those of
// each service for no zone and for each zone.
type plan struct {
	tables [services][zones + 1][]uint32
}

func newPlan() (*plan, error) {
	p := &plan{}
	for s := range services {
		for zone := range zones + 1 {
			slots, err := fillTable(s, zone)
			if err != nil {
				return nil, err
			}
			p.tables[s][zone] = slots
		}
	}
	return p, nil
}

// fillTable fills the table of a service for the clients of a zone, of member ids.
func fillTable(service, zone int) ([]uint32, error) {
	var members []selector.TableMember
	ids := map[string]uint32{}
	for i := range serviceMembers {
		id := memberID(service, i)
		if zone != 0 && memberZone(id) != zone {
			continue
		}
		name := fmt.Sprintf("backend-%d", id)
		ids[name] = id
		members = append(members, selector.TableMember{Name: name, Weight: 1})
	}
	slots, err := selector.Fill(lb.PolicyMaglev, members, 1)
	if err != nil {
		return nil, err
	}
	selector.SortMembers(members)
	for i, m := range slots {
		slots[i] = ids[members[m].Name]
	}
	return slots, nil
}

func memberID(service, i int) uint32 { return uint32(service*serviceMembers + i + 1) }

func memberZone(id uint32) int { return int(id)%zones + 1 }

// plane is one loaded build of the data plane.
type plane struct {
	dp    *loader.Datapath
	drv   *driver
	fresh uint32 // number of the next flow that was never seen
	epoch uint16 // of all rules
}

// newPlane loads a build and configures it. Nothing is attached.
func newPlane(drv *driver, plan *plan, o loader.Options) (_ *plane, err error) {
	p := &plane{drv: drv, fresh: 1 << 20}
	if p.dp, err = loader.Load(o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := p.dp.SetPort(loader.TestIfIndex, gatewayMAC); err != nil {
		return nil, err
	}
	if err := p.setServices(plan); err != nil {
		return nil, err
	}
	if err := p.flush(); err != nil {
		return nil, err
	}
	if err := p.dp.SetZones(zonePrefixes()); err != nil {
		return nil, err
	}
	return p, p.dp.SetFrontends(frontends())
}

func (p *plane) close() error { return p.dp.Close() }

func (p *plane) setServices(plan *plan) error {
	for s := range services {
		for i := range serviceMembers {
			id := memberID(s, i)
			err := p.dp.SetMember(id, loader.Member{
				DMAC: [6]byte{0x02, 0x4c, 10, 1, 0, byte(id)}, SMAC: gatewayMAC,
				IfIndex: loader.TestIfIndex, Generation: [loader.ClassMax]uint16{1, 1},
				StatBase: (id - 1) * rulesPerService, Zone: uint8(memberZone(id)), Service: uint16(s + 1),
			})
			if err != nil {
				return err
			}
		}
		for zone, slots := range plan.tables[s] {
			table, err := p.dp.NewTable(slots)
			if err != nil {
				return err
			}
			if err := p.dp.SetPick(uint32(s+1), uint32(zone), table); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes all rules anew with another epoch: no flow entry that there is
// holds any longer.
func (p *plane) flush() error {
	p.epoch++
	for s := range services {
		for slot := range rulesPerService {
			err := p.dp.SetRule(ruleID(s, slot), loader.Rule{
				Service: uint16(s + 1), Epoch: p.epoch, ServiceEpoch: 1, StatSlot: uint16(slot),
				IdleTicks: p.dp.Ticks(idle),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func ruleID(service, slot int) uint32 { return uint32(service*rulesPerService + slot + 1) }

func frontends() []loader.Frontend {
	var list []loader.Frontend
	for f, family := range []Family{IPv4, IPv6} {
		addr := firstVIP[family]
		for v := range vips {
			slot := v/services*rulesPerVIP + 2*f
			service := v % services
			list = append(list, loader.Frontend{
				Address: netip.PrefixFrom(addr, addr.BitLen()),
				Ports: []loader.FrontendPort{
					{Protocol: protoTCP, Port: tcpPort, Rule: ruleID(service, slot)},
					{Protocol: protoUDP, Port: udpPort, Rule: ruleID(service, slot+1)},
				},
			})
			addr = addr.Next()
		}
	}
	return list
}

// zonePrefixes puts all networks of clients but the last in a zone.
func zonePrefixes() []loader.ZonePrefix {
	var list []loader.ZonePrefix
	for n := range byte(zones) {
		v4, v6 := firstClient[IPv4].As4(), firstClient[IPv6].As16()
		v4[1] += n
		v6[5] += n
		list = append(list,
			loader.ZonePrefix{Prefix: netip.PrefixFrom(netip.AddrFrom4(v4), 16), Zone: n + 1},
			loader.ZonePrefix{Prefix: netip.PrefixFrom(netip.AddrFrom16(v6), 48), Zone: n + 1})
	}
	return list
}
