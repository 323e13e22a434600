package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML returns the root mapping of the only document, or nil with the
// reason reported.
func parseYAML(r *report, data []byte) *node {
	file, err := parseBytes(data)
	if err != nil {
		p, msg := syntaxError(err)
		r.errorf(p, "not valid YAML: %s", msg)
		return nil
	}
	t := tree{report: r, anchors: map[string]*node{}}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.errorf(place(doc.Body), "second YAML document: a configuration is one document, remove the --- line")
			break
		}
		root = t.convert(doc.Body)
	}
	switch {
	case root == nil || root.kind == kindNull:
		r.errorf(pos{1, 1}, "the configuration is empty: it needs at least l4lb.gateway")
		return nil
	case root.kind != kindMap:
		r.errorf(root.pos, "the configuration is %s: it must be a mapping that starts with keys such as l4lb and backendServices", root.kind)
		return nil
	}
	return root
}

// parseBytes keeps a panic of the YAML library, which some malformed input
// provokes, from ending a daemon that only re-reads its file.
func parseBytes(data []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, errors.New("the parser cannot make sense of the file")
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func syntaxError(err error) (pos, string) {
	var yerr yaml.Error
	if errors.As(err, &yerr) {
		return tokenPlace(yerr.GetToken()), yerr.GetMessage()
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return pos{1, 1}, first
}

func tokenPlace(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{1, 1}
	}
	return pos{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// place is where a reader sees the value begin. A block mapping begins at its
// first key, not at the colon.
func place(n ast.Node) pos {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return tokenPlace(m.Values[0].Key.GetToken())
	}
	return tokenPlace(n.GetToken())
}

// tree converts the library's nodes.
type tree struct {
	*report
	anchors map[string]*node
}

func (t *tree) convert(n ast.Node) *node {
	out := &node{kind: kindNull}
	if n == nil {
		return out
	}
	out.pos = place(n)
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		t.mapping(out, n)
	case *ast.SequenceNode:
		out.kind = kindList
		for _, item := range n.Values {
			out.items = append(out.items, t.convert(item))
		}
	case *ast.AnchorNode:
		inner := t.convert(n.Value)
		t.anchors[n.Name.GetToken().Value] = inner
		return inner
	case *ast.AliasNode:
		return t.alias(out.pos, n)
	case *ast.TagNode:
		inner := t.convert(n.Value)
		inner.plain = false
		return inner
	case *ast.StringNode:
		tt := n.GetToken().Type
		out.scalar(n.Value, tt != token.SingleQuoteType && tt != token.DoubleQuoteType)
	case *ast.LiteralNode:
		out.scalar(n.Value.Value, false)
	default:
		out.scalar(n.GetToken().Value, true)
	}
	return out
}

func (n *node) scalar(text string, plain bool) {
	n.kind, n.text, n.plain = kindScalar, text, plain
}

// alias copies the anchored value but keeps the alias's own place, which is
// where the operator has to look.
func (t *tree) alias(p pos, n *ast.AliasNode) *node {
	name := n.Value.GetToken().Value
	target := t.anchors[name]
	if target == nil {
		t.errorf(p, "alias *%s has no anchor before it: write &%s at the value it repeats", name, name)
		return &node{kind: kindNull, pos: p}
	}
	out := *target
	out.pos = p
	return &out
}

func (t *tree) mapping(out *node, m *ast.MappingNode) {
	out.kind = kindMap
	out.entries = make([]entry, 0, len(m.Values))
	for _, mv := range m.Values {
		p := tokenPlace(mv.Key.GetToken())
		if mv.Key.IsMergeKey() {
			t.errorf(p, "merge key << is not supported: repeat the keys, or use an alias for a whole value")
			continue
		}
		key, ok := keyText(mv.Key)
		if !ok {
			t.errorf(p, "a key must be a plain word")
			continue
		}
		value := t.convert(mv.Value)
		if first := out.lookup(key); first != nil {
			t.errorf(p, "duplicate key %q: it is already at line %d, keep one", key, first.keyPos.line)
			continue
		}
		out.entries = append(out.entries, entry{key: key, keyPos: p, value: value})
	}
}

// lookup is linear: no mapping of the schema has more than some dozen keys.
func (n *node) lookup(key string) *entry {
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i]
		}
	}
	return nil
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	}
	return "", false
}
