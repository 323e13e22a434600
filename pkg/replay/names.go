package replay

import "l4lb/pkg/controller"

// names resolves the ids of traces.
type names struct {
	rules    map[uint32]ruleName
	backends map[uint32]string
}

type ruleName struct{ name, service string }

func (n *names) read(s *controller.Snapshot) {
	n.rules, n.backends = map[uint32]ruleName{}, map[uint32]string{}
	for i := range s.Rules {
		name := ruleName{name: s.Rules[i].Rule.Name, service: s.Rules[i].Rule.Service}
		n.rules[s.Rules[i].ID] = name
		if id := s.Rules[i].RoutedID; id != 0 {
			n.rules[id] = name
		}
	}
	for i := range s.Services {
		for j := range s.Services[i].Members {
			m := &s.Services[i].Members[j]
			n.backends[m.ID] = m.Backend.Instance
		}
	}
}

// rule is empty for id 0.
func (n *names) rule(id uint32) ruleName { return n.rules[id] }

// backend is empty for id 0.
func (n *names) backend(id uint32) string { return n.backends[id] }
