package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"l4lb/pkg/loader"
)

// names tells what the gateway's ids stand for. They may change with its
// configuration, so what was read is forgotten now and then.
type names struct {
	running *loader.Running
	known   map[nameKey]string
}

type nameKey struct {
	kind loader.NameKind
	id   uint32
}

func (n *names) forget(running *loader.Running) { n.running, n.known = running, map[nameKey]string{} }

// get is a name, or "#ID" where there is none.
func (n *names) get(kind loader.NameKind, id uint32) string {
	if id == 0 {
		return ""
	}
	key := nameKey{kind, id}
	name, ok := n.known[key]
	if !ok {
		var err error
		if name, err = n.running.Name(kind, id); err != nil || name == "" {
			name = fmt.Sprintf("#%d", id)
		}
		n.known[key] = name
	}
	return name
}

// rule is a rule's name, whichever of its ids it is.
func (n *names) rule(id uint32) string {
	return strings.TrimSuffix(n.get(loader.NameRule, id), loader.RoutedSuffix)
}

// backend splits a member's name, "service/instance/address".
func (n *names) backend(id uint32) (service, instance string) {
	return splitMember(n.get(loader.NameMember, id))
}

func splitMember(name string) (service, instance string) {
	service, rest, ok := strings.Cut(name, "/")
	if !ok {
		return "", name
	}
	return service, rest[:max(strings.LastIndexByte(rest, '/'), 0)]
}

// nameOf is the part of an id's name that a condition is about.
func (c term) nameOf(full string) string {
	if c.kind != kindMember {
		return strings.TrimSuffix(full, loader.RoutedSuffix)
	}
	service, instance := splitMember(full)
	if c.value == byService {
		return service
	}
	return instance
}

var nameKinds = map[tracerCaptureKind]loader.NameKind{
	kindRule: loader.NameRule, kindMember: loader.NameMember, kindZone: loader.NameZone,
}

// words are what conditions with names begin with.
func (c term) word() string {
	switch {
	case c.kind == kindRule:
		return "rule"
	case c.kind == kindZone:
		return "zone"
	case c.value == byService:
		return "service"
	}
	return "backend"
}

// hasNames reports whether the filter asks for something by its name.
func (f *Filter) hasNames() bool {
	return slices.ContainsFunc(f.terms, func(c term) bool { return c.name != "" })
}

// listed finds the ids that the filter's names stand for. unknown is the first
// condition whose name nothing has, with the names there are.
func (f *Filter) listed(running *loader.Running) (ids map[tracerCaptureId]bool, unknown error, err error) {
	ids = map[tracerCaptureId]bool{}
	for i, c := range f.terms {
		if c.name == "" {
			continue
		}
		all, err := running.Names(nameKinds[c.kind])
		if err != nil {
			return nil, nil, err
		}
		found, others := false, map[string]bool{}
		for id, full := range all {
			name := c.nameOf(full)
			others[name] = true
			if name == c.name {
				ids[tracerCaptureId{Term: uint32(i), Id: id}], found = true, true
			}
		}
		if !found && unknown == nil {
			unknown = &FilterError{f.text, c.column(f), fmt.Sprintf("the gateway has no %s %q: it has %s", c.word(), c.name, some(others))}
		}
	}
	return ids, unknown, nil
}

func (c term) column(f *Filter) int { return utf8.RuneCountInString(f.text[:c.at]) + 1 }

// some lists names, not too many.
func some(set map[string]bool) string {
	const limit = 10
	list := slices.Sorted(maps.Keys(set))
	if len(list) == 0 {
		return "none"
	}
	if len(list) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:limit], ", "), len(list)-limit)
	}
	return strings.Join(list, ", ")
}
