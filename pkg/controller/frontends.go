package controller

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// writeFrontends replaces the frontends where they changed.
func (e *Engine) writeFrontends() error {
	if !e.frontsDirty {
		return nil
	}
	list := e.frontends()
	if e.fronts == nil || !reflect.DeepEqual(list, e.fronts) {
		if err := e.dp.SetFrontends(list); err != nil {
			return err
		}
		e.fronts = list
	}
	e.frontsDirty = false
	return nil
}

// frontends lists the addresses that are ours with their rules.
func (e *Engine) frontends() []loader.Frontend {
	byAddress := map[netip.Prefix]*loader.Frontend{}
	var order []*loader.Frontend
	for _, r := range e.sortedRules() {
		if r.routed {
			continue
		}
		f := byAddress[r.cfg.Address]
		if f == nil {
			f = &loader.Frontend{Address: r.cfg.Address}
			byAddress[r.cfg.Address] = f
			order = append(order, f)
		}
		addRule(f, r)
	}
	inheritRules(order)
	out := make([]loader.Frontend, len(order))
	for i, f := range order {
		out[i] = *f
	}
	return out
}

// inheritRules gives single addresses inside a /96 the rules of the /96 that
// they have no equal of: the program looks at the record of one address only.
func inheritRules(list []*loader.Frontend) {
	var wides []*loader.Frontend
	for _, f := range list {
		if !f.Address.IsSingleIP() {
			wides = append(wides, f)
		}
	}
	for _, f := range list {
		for _, wide := range wides {
			if f == wide || !wide.Address.Contains(f.Address.Addr()) {
				continue
			}
			f.TCP, f.UDP, f.L3 = cmp.Or(f.TCP, wide.TCP), cmp.Or(f.UDP, wide.UDP), cmp.Or(f.L3, wide.L3)
			for _, p := range wide.Ports {
				taken := func(own loader.FrontendPort) bool { return own.Protocol == p.Protocol && own.Port == p.Port }
				if !slices.ContainsFunc(f.Ports, taken) {
					f.Ports = append(f.Ports, p)
				}
			}
		}
	}
}

func addRule(f *loader.Frontend, r *rule) {
	proto, all := uint8(6), &f.TCP
	switch r.cfg.Protocol {
	case lb.RuleUDP:
		proto, all = 17, &f.UDP
	case lb.RuleL3Default:
		all = &f.L3
	}
	if r.cfg.AllPorts || r.cfg.Protocol == lb.RuleL3Default {
		*all = r.id
		return
	}
	for _, port := range r.cfg.Ports {
		f.Ports = append(f.Ports, loader.FrontendPort{Protocol: proto, Port: port, Rule: r.id})
	}
}
