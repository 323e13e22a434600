package daemon

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/neigh"
	"l4lb/pkg/passive"
)

// counters is what a view reads of *loader.Datapath.
type counters interface {
	Traffic(record uint32) (loader.Traffic, error)
	ZoneTraffic(client, backend uint32) (loader.Traffic, error)
	Refused(rule uint32) (loader.Refused, error)
}

// view shows the gateway at one moment in the words of the local API. newView
// makes one.
type view struct {
	cfg *lb.Config
	// checks are the health checks of the configured services; a service
	// without one has nil.
	checks   map[string]*lb.HealthCheck
	snapshot *controller.Snapshot
	counters counters
	// health is what is known of a member at each address it is probed at.
	health     func(service, instance string, addr netip.Addr) []controller.RuleHealth
	neighbours map[netip.Addr]neigh.Entry
	// suspected are the suspicions of a backend.
	suspected func(k passive.Key) []passive.Suspicion
}

func newView(cfg *lb.Config, snapshot *controller.Snapshot) *view {
	v := &view{
		cfg: cfg, snapshot: snapshot, checks: make(map[string]*lb.HealthCheck, len(cfg.Services)),
		suspected: func(passive.Key) []passive.Suspicion { return nil },
	}
	byName := make(map[string]*lb.HealthCheck, len(cfg.HealthChecks))
	for i := range cfg.HealthChecks {
		byName[cfg.HealthChecks[i].Name] = &cfg.HealthChecks[i]
	}
	for i := range cfg.Services {
		v.checks[cfg.Services[i].Name] = byName[cfg.Services[i].HealthCheck]
	}
	return v
}

// configured reports whether a service is in the configuration; one that is not
// may still have backends that drain.
func (v *view) configured(service string) bool {
	_, ok := v.checks[service]
	return ok
}

func (v *view) services() []admin.Service {
	out := []admin.Service{}
	for i := range v.snapshot.Services {
		s := &v.snapshot.Services[i]
		row := admin.Service{
			Name: s.Name, Family: family(s), Kind: string(s.Kind), Pool: s.Pool, Backends: len(s.Members),
		}
		for _, m := range s.Members {
			switch m.State {
			case lb.Healthy:
				row.Healthy++
			case lb.Unhealthy:
				row.Unhealthy++
			case lb.Draining:
				row.Draining++
			default:
				row.Unknown++
			}
			if m.Eligible {
				row.Eligible++
			}
		}
		out = append(out, row)
	}
	return out
}

func family(s *controller.ServiceStatus) string {
	if s.IPv6 {
		return "ipv6"
	}
	return "ipv4"
}

// rules lists the rules with the traffic of all their backends.
func (v *view) rules() ([]admin.ForwardingRule, error) {
	members := map[string][]controller.MemberStatus{}
	for _, s := range v.snapshot.Services {
		members[s.Name] = append(members[s.Name], s.Members...)
	}
	out := []admin.ForwardingRule{}
	for _, r := range v.snapshot.Rules {
		row := admin.ForwardingRule{
			Name: r.Rule.Name, Address: address(r.Rule.Address), Protocol: string(r.Rule.Protocol),
			Ports: append([]uint16{}, r.Rule.Ports...), AllPorts: r.Rule.AllPorts, Service: r.Rule.Service,
		}
		for _, m := range members[r.Rule.Service] {
			if err := v.addTraffic(&row.Traffic, m.StatBase+r.StatSlot); err != nil {
				return nil, err
			}
		}
		var err error
		if row.Admission, err = v.admission(r); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// admission is nil where a rule takes every new flow.
func (v *view) admission(r controller.RuleStatus) (*admin.Admission, error) {
	a := &r.Rule.Admission
	if !a.Asks() {
		return nil, nil
	}
	refused, err := v.counters.Refused(r.ID)
	if err != nil {
		return nil, err
	}
	if r.RoutedID != 0 {
		more, err := v.counters.Refused(r.RoutedID)
		if err != nil {
			return nil, err
		}
		refused.NotAllowed += more.NotAllowed
		refused.Limited += more.Limited
		refused.SourceLimited += more.SourceLimited
	}
	out := &admin.Admission{
		AllowedSourceRanges: []string{},
		Flows:               admin.FlowRate(a.Flows), SourceFlows: admin.FlowRate(a.SourceFlows), SourcePrefixLength: a.SourcePrefix,
		Refused: admin.Refused{
			SourceNotAllowed: refused.NotAllowed, RateLimited: refused.Limited, SourceRateLimited: refused.SourceLimited,
		},
	}
	for _, p := range a.AllowedSources {
		out.AllowedSourceRanges = append(out.AllowedSourceRanges, p.String())
	}
	return out, nil
}

// address leaves out the length of a prefix that is a single address.
func address(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func (v *view) addTraffic(sum *admin.Traffic, record uint32) error {
	t, err := v.counters.Traffic(record)
	sum.Packets += t.Packets
	sum.Bytes += t.Bytes
	sum.Flows += t.Flows
	return err
}

// backends lists the members of a service, or of all with "".
func (v *view) backends(service string) ([]admin.Backend, error) {
	slots := map[string][]uint32{}
	for _, r := range v.snapshot.Rules {
		slots[r.Rule.Service] = append(slots[r.Rule.Service], r.StatSlot)
	}
	out := []admin.Backend{}
	for i := range v.snapshot.Services {
		s := &v.snapshot.Services[i]
		if service != "" && s.Name != service {
			continue
		}
		for _, m := range s.Members {
			row := v.backend(s.Name, m)
			for _, slot := range slots[s.Name] {
				if err := v.addTraffic(&row.Traffic, m.StatBase+slot); err != nil {
					return nil, err
				}
			}
			out = append(out, row)
		}
	}
	return out, nil
}

func (v *view) backend(service string, m controller.MemberStatus) admin.Backend {
	row := admin.Backend{
		Service: service, Instance: m.Backend.Instance, Address: m.Backend.Addr.String(), Zone: m.Backend.Zone,
		Group: m.Backend.Group, Failover: m.Backend.Failover, State: string(m.State), Health: string(m.Health),
		Eligible: m.Eligible, Leaving: m.Leaving, DrainEnd: moment(m.DrainEnd), Link: v.link(cmp.Or(m.SentTo, m.Backend.Addr)), Tunnel: tunnel(&m),
	}
	row.Weight, row.WeightError = weight(m.Weight)
	row.Suspicions = shown(v.suspected(passive.Key{Service: service, Instance: m.Backend.Instance, Addr: m.Backend.Addr}))
	showChecks(&row, v.health(service, m.Backend.Instance, m.Backend.Addr))
	return row
}

func (v *view) link(addr netip.Addr) admin.Link {
	e, ok := v.neighbours[addr]
	if !ok {
		return admin.Link{State: string(neigh.Pending)}
	}
	out := admin.Link{State: string(e.State), Usable: e.Usable(), Interface: e.LinkName, MAC: e.MAC.String()}
	if e.Via.IsValid() {
		out.Via = e.Via.String()
	}
	return out
}

func tunnel(m *controller.MemberStatus) *admin.Tunnel {
	if !m.Tunnel.Kind.Tunnelled() {
		return nil
	}
	out := &admin.Tunnel{
		Kind: string(m.Tunnel.Kind), Destination: m.SentTo.String(),
		Overhead: m.Tunnel.Overhead, MTU: m.Tunnel.MTU, Problem: m.Tunnel.Problem,
	}
	if m.Tunnel.Source.IsValid() {
		out.Source = address(m.Tunnel.Source)
	}
	return out
}

// moment is nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// weight writes a weight as the decimal it was reported as.
func weight(w lb.Weight) (value, problem string) {
	if !w.Valid() {
		return "", string(w.Err)
	}
	whole := strconv.FormatUint(w.PPM/lb.WeightOne, 10)
	if rest := w.PPM % lb.WeightOne; rest != 0 {
		digits := strconv.FormatUint(lb.WeightOne+rest, 10)[1:]
		whole += "." + strings.TrimRight(digits, "0")
	}
	return whole, ""
}

// zones lists the zones with what their clients were sent to, and the zone
// "none" last.
func (v *view) zones() ([]admin.Zone, error) {
	all := append([]controller.ZoneStatus{}, v.snapshot.Zones...)
	all = append(all, controller.ZoneStatus{Name: admin.NoZone})
	ranges := map[string][]string{}
	for _, z := range v.cfg.Clients.Zones {
		for _, p := range z.ClientRanges {
			ranges[z.Name] = append(ranges[z.Name], p.String())
		}
	}
	total, healthy := v.backendsByZone()
	out := []admin.Zone{}
	for _, from := range all {
		row := admin.Zone{
			Name: from.Name, ClientRanges: append([]string{}, ranges[from.Name]...),
			Backends: total[from.Name], Healthy: healthy[from.Name], To: []admin.ZoneTraffic{},
		}
		for _, to := range all {
			t, err := v.counters.ZoneTraffic(from.ID, to.ID)
			if err != nil {
				return nil, err
			}
			row.To = append(row.To, admin.ZoneTraffic{Zone: to.Name, Packets: t.Packets, Bytes: t.Bytes})
		}
		out = append(out, row)
	}
	return out, nil
}

// backendsByZone counts members of services, a backend once for each service it
// is in.
func (v *view) backendsByZone() (total, healthy map[string]int) {
	total, healthy = map[string]int{}, map[string]int{}
	for _, s := range v.snapshot.Services {
		for _, m := range s.Members {
			zone := m.Backend.Zone
			if zone == "" {
				zone = admin.NoZone
			}
			total[zone]++
			if m.State == lb.Healthy {
				healthy[zone]++
			}
		}
	}
	return total, healthy
}
