package config

import (
	"fmt"
	"slices"
	"strings"
)

// schema is one kind of mapping: which keys it has and where their values go.
type schema[T any] struct {
	fields  []field[T]
	index   map[string]*field[T]
	ignored []string          // output-only fields of the API
	refused map[string]string // keys of the API that cannot apply, with the reason
}

// field is one key of a mapping that is read into a T.
type field[T any] struct {
	name string
	read func(*report, *entry, *T)
	sub  []string // the keys below it, as suffixes
}

func object[T any](fields ...field[T]) *schema[T] {
	s := &schema[T]{fields: fields, index: make(map[string]*field[T], len(fields))}
	for i := range fields {
		s.index[fields[i].name] = &fields[i]
	}
	return s
}

// ignore accepts output-only keys, whatever they hold.
func (s *schema[T]) ignore(keys ...string) *schema[T] {
	s.ignored = append(s.ignored, keys...)
	return s
}

// refuse gives keys that operators may try a better answer than "unknown".
func (s *schema[T]) refuse(keys map[string]string) *schema[T] {
	s.refused = keys
	return s
}

// decode reads every key of n; what is absent or null stays as it is.
func (s *schema[T]) decode(r *report, n *node, into *T) {
	if !s.wantMapping(r, n) {
		return
	}
	for i := range n.entries {
		e := &n.entries[i]
		f := s.index[e.key]
		switch {
		case f != nil && e.value.kind != kindNull:
			f.read(r, e, into)
		case f != nil || slices.Contains(s.ignored, e.key):
		case s.refused[e.key] != "":
			r.errorf(e.keyPos, "%s is not accepted: %s", e.key, s.refused[e.key])
		default:
			r.errorf(e.keyPos, "unknown key %q: %s", e.key, s.mend(e.key))
		}
	}
}

func (s *schema[T]) wantMapping(r *report, n *node) bool {
	if n.kind == kindMap {
		return true
	}
	r.errorf(n.pos, "%s where a mapping belongs: its keys are %s", n.describe(), strings.Join(s.names(), ", "))
	return false
}

func (s *schema[T]) mend(key string) string {
	if near := nearest(key, s.names()); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "remove it, or use one of " + strings.Join(s.names(), ", ")
}

func (s *schema[T]) names() []string {
	out := make([]string, len(s.fields))
	for i := range s.fields {
		out[i] = s.fields[i].name
	}
	return out
}

// keys lists every accepted key at any depth: "a", "a.b", "list[].c". The
// reference documentation has a heading for each.
func (s *schema[T]) keys() []string {
	var out []string
	for _, f := range s.fields {
		out = append(out, f.name)
		for _, sub := range f.sub {
			out = append(out, f.name+sub)
		}
	}
	return out
}

func prefixed(prefix string, keys []string) []string {
	out := make([]string, len(keys))
	for i := range keys {
		out[i] = prefix + keys[i]
	}
	return out
}

func (n *node) describe() string {
	if n.kind == kindScalar {
		return fmt.Sprintf("%q is a single value", shorten(n.text))
	}
	return n.kind.String()
}

// scalar is a key with a single value. The parser's error continues the
// sentence that begins with key and value.
func scalar[T, V any](name string, at func(*T) *val[V], parse func(*node) (V, error)) field[T] {
	return field[T]{name: name, read: func(r *report, e *entry, into *T) {
		*at(into) = readScalar(r, name, e.value, parse)
	}}
}

func readScalar[V any](r *report, name string, n *node, parse func(*node) (V, error)) val[V] {
	out := val[V]{pos: n.pos, set: true}
	if n.kind != kindScalar {
		r.errorf(n.pos, "%s has %s: give it a single value", name, n.kind)
		out.bad = true
		return out
	}
	v, err := parse(n)
	if err != nil {
		r.errorf(n.pos, "%s %q %v", name, shorten(n.text), err)
		out.bad = true
		return out
	}
	out.v = v
	return out
}

// scalars is a key with a list of single values.
func scalars[T, V any](name string, at func(*T) *[]val[V], parse func(*node) (V, error)) field[T] {
	return field[T]{name: name, read: func(r *report, e *entry, into *T) {
		list := at(into)
		if !wantList(r, name, e.value) {
			*list = append(*list, val[V]{pos: e.value.pos, set: true, bad: true})
			return
		}
		for _, item := range e.value.items {
			*list = append(*list, readScalar(r, name, item, parse))
		}
	}}
}

func wantList(r *report, name string, n *node) bool {
	if n.kind == kindList {
		return true
	}
	mend := "write each item on a line of its own after \"- \""
	if n.kind == kindScalar {
		mend = fmt.Sprintf("write [%s]", shorten(n.text))
	}
	r.errorf(n.pos, "%s has %s where a list belongs: %s", name, n.kind, mend)
	return false
}

// nested is a key with a mapping. at may note the entry's place in T.
func nested[T, V any](name string, at func(*T, *entry) *V, sub *schema[V]) field[T] {
	return field[T]{name: name, sub: prefixed(".", sub.keys()), read: func(r *report, e *entry, into *T) {
		sub.decode(r, e.value, at(into, e))
	}}
}

// objects is a key with a list of mappings. add makes room for one more.
func objects[T, V any](name string, add func(*T, *node) *V, sub *schema[V]) field[T] {
	return field[T]{name: name, sub: prefixed("[].", sub.keys()), read: func(r *report, e *entry, into *T) {
		if !wantList(r, name, e.value) {
			return
		}
		for _, item := range e.value.items {
			if sub.wantMapping(r, item) {
				sub.decode(r, item, add(into, item))
			}
		}
	}}
}

// present is a key whose value is not looked into; it notes whether there is
// anything in it.
func present[T any](name string, at func(*T) *val[bool]) field[T] {
	return field[T]{name: name, read: func(_ *report, e *entry, into *T) {
		n := e.value
		*at(into) = val[bool]{v: n.text != "" || len(n.entries)+len(n.items) > 0, pos: e.keyPos, set: true}
	}}
}

// only is a key of the API that has no meaning here and is accepted with the
// values that say so.
func only[T any](name, reason string, accepted ...string) field[T] {
	return field[T]{name: name, read: func(r *report, e *entry, _ *T) {
		readScalar(r, name, e.value, func(n *node) (struct{}, error) {
			if slices.Contains(accepted, n.text) {
				return struct{}{}, nil
			}
			mend := "remove it"
			if accepted[0] != "" {
				mend += " or write " + accepted[0]
			}
			return struct{}{}, fmt.Errorf("has no meaning here, %s: %s", reason, mend)
		})
	}}
}

// noting lets note see the entry of a field before it is read.
func noting[T any](f field[T], note func(*T, *entry)) field[T] {
	read := f.read
	f.read = func(r *report, e *entry, into *T) {
		note(into, e)
		read(r, e, into)
	}
	return f
}
