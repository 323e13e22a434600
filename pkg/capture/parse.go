package capture

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The grammar:
//
//	filter    = all { "or" all }
//	all       = part { "and" part }
//	part      = "not" part | "(" filter ")" | condition
//	condition = [ "src" | "dst" ] [ "host" | "net" ] ADDRESS[/BITS]
//	          | [ "src" | "dst" ] "port" NUMBER
//	          | "proto" NAME-OR-NUMBER | "tcp" | "udp" | …
//	          | "arp" | "ip" | "ip6" | "fragment"
//	          | "verdict" NAME | "reason" NAME | "flow" NAME
//	          | "rule" NAME | "backend" NAME | "service" NAME | "zone" NAME

// maxDepth bounds parentheses and nots in each other.
const maxDepth = 64

type token struct {
	text string // "" at the end
	at   int    // bytes from the start
}

type parser struct {
	filter *Filter
	text   string
	tokens []token
	next   int
}

// split cuts a filter into words and parentheses.
func split(text string) []token {
	var out []token
	start := -1
	end := func(i int) {
		if start >= 0 {
			out = append(out, token{text[start:i], start})
		}
		start = -1
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
			end(i)
		case '(', ')':
			end(i)
			out = append(out, token{text[i : i+1], i})
		default:
			if start < 0 {
				start = i
			}
		}
	}
	end(len(text))
	return out
}

func (p *parser) peek() token {
	if p.next < len(p.tokens) {
		return p.tokens[p.next]
	}
	return token{at: len(p.text)}
}

func (p *parser) take() token {
	t := p.peek()
	p.next++
	return t
}

// accept takes the next word if it is this one.
func (p *parser) accept(word string) bool {
	if p.peek().text != word {
		return false
	}
	p.next++
	return true
}

func (p *parser) errorf(t token, format string, args ...any) error {
	column := utf8.RuneCountInString(p.text[:min(t.at, len(p.text))]) + 1
	return &FilterError{p.text, column, fmt.Sprintf(format, args...)}
}

func (p *parser) alternatives(depth int) (*node, error) {
	return p.list("or", depth, func() (*node, error) {
		return p.list("and", depth, func() (*node, error) { return p.part(depth) })
	})
}

// list reads parts with a word between them.
func (p *parser) list(word string, depth int, part func() (*node, error)) (*node, error) {
	n := &node{and: word == "and"}
	for {
		child, err := part()
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, child)
		if !p.accept(word) {
			break
		}
	}
	if len(n.children) == 1 {
		return n.children[0], nil
	}
	return n, nil
}

func (p *parser) part(depth int) (*node, error) {
	t := p.take()
	if depth > maxDepth {
		return nil, p.errorf(t, "more than %d parentheses in each other: use fewer", maxDepth)
	}
	switch t.text {
	case "not":
		n, err := p.part(depth + 1)
		if err != nil {
			return nil, err
		}
		return &node{and: true, not: true, children: []*node{n}}, nil
	case "(":
		n, err := p.alternatives(depth + 1)
		if err != nil {
			return nil, err
		}
		if end := p.take(); end.text != ")" {
			return nil, p.errorf(end, "the parenthesis of column %d is not closed: put \")\" here or %s",
				t.at+1, `"and" or "or" between conditions`)
		}
		return n, nil
	}
	return p.condition(t)
}

// conditions are the words that one begins with, for messages.
const conditions = "host, src, dst, port, proto, tcp, udp, icmp, arp, ip, ip6, fragment, verdict, reason, rule, backend, service, flow or zone"

func (p *parser) condition(t token) (*node, error) {
	switch t.text {
	case "":
		return nil, p.errorf(t, "a condition is missing at the end: use %s", conditions)
	case "src", "dst", "host", "net", "port":
		return p.endpoint(t)
	case "proto":
		value := p.take()
		number, ok := protocol(value.text)
		if !ok {
			return nil, p.errorf(value, "%q is no protocol: use tcp, udp, icmp, icmp6, sctp, gre, esp, ah or a number from 0 to 255", value.text)
		}
		return p.leaf(t, term{kind: kindProto, value: number})
	case "arp", "ip", "ip6":
		return p.leaf(t, term{kind: kindEther, value: etherTypes[t.text]})
	case "fragment":
		return p.leaf(t, term{kind: kindFragment})
	case "verdict", "reason", "flow":
		return p.outcome(t)
	case "rule", "backend", "service", "zone":
		name := p.take()
		if name.text == "" || name.text == "(" || name.text == ")" {
			return nil, p.errorf(name, "the name of a %s is missing: see l4lbd services", t.text)
		}
		return p.leaf(t, term{kind: namedKinds[t.text], value: namedValue(t.text), name: name.text, at: name.at})
	}
	if number, ok := protocols[t.text]; ok {
		return p.leaf(t, term{kind: kindProto, value: number})
	}
	return nil, p.errorf(t, "%q is no condition: use %s", t.text, conditions)
}

// leaf is a condition. One that was there before has the same bit.
func (p *parser) leaf(t token, c term) (*node, error) {
	same := func(o term) bool {
		return o.kind == c.kind && o.value == c.value && o.addr == c.addr && o.name == c.name
	}
	i := slices.IndexFunc(p.filter.terms, same)
	if i < 0 {
		if i = len(p.filter.terms); i == maxTerms {
			return nil, p.errorf(t, "a condition too many: %d are possible; a network may stand for addresses", maxTerms)
		}
		p.filter.terms = append(p.filter.terms, c)
	}
	return &node{term: i}, nil
}

// either holds where one of two conditions does.
func (p *parser) either(t token, a, b term) (*node, error) {
	x, err := p.leaf(t, a)
	if err != nil {
		return nil, err
	}
	y, err := p.leaf(t, b)
	if err != nil {
		return nil, err
	}
	return &node{children: []*node{x, y}}, nil
}

// choose finds a word in a table, or says what there is.
func (p *parser) choose(what string, t token, values map[string]uint32) (uint32, error) {
	value, ok := values[strings.ToUpper(t.text)]
	if !ok {
		names := make([]string, 0, len(values))
		for name := range values {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			if values[a] != values[b] {
				return int(values[a]) - int(values[b])
			}
			return strings.Compare(a, b)
		})
		return 0, p.errorf(t, "%q is no %s: use %s", t.text, what, strings.Join(names, ", "))
	}
	return value, nil
}
