package config

// kind is the shape of a YAML value.
type kind uint8

const (
	kindNull kind = iota
	kindScalar
	kindMap
	kindList
)

// String names the shape with its article.
func (k kind) String() string {
	return [...]string{"an empty value", "a single value", "a mapping", "a list"}[k]
}

// node is a YAML value with its place, free of the YAML library: aliases and
// tags are resolved, duplicate keys are gone (and reported).
type node struct {
	kind    kind
	pos     pos
	text    string  // of a scalar
	plain   bool    // a scalar without quotes
	entries []entry // of a mapping, in order
	items   []*node // of a list
}

// entry is one key of a mapping.
type entry struct {
	key    string
	keyPos pos
	value  *node
}

// val is a value that was read from the file, or was not.
type val[T any] struct {
	v   T
	pos pos
	set bool // the key was there
	bad bool // and its value was refused; v means nothing
}

// ok reports whether there is a value to judge.
func (v val[T]) ok() bool { return v.set && !v.bad }

// or is the value, or def where the file gives none. Rules that combine keys
// must ask known first.
func (v val[T]) or(def T) T {
	if v.ok() {
		return v.v
	}
	return def
}

// known reports whether or() gives what the operator meant: the key is absent
// or has a good value.
func (v val[T]) known() bool { return !v.bad }
