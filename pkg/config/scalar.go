package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The parsers of single values. Their errors continue a sentence that begins
// with the key and the value, and end with the mend.

const (
	maxNameLength     = 63  // of a resource, as in the API
	maxInstanceLength = 253 // of an instance, which may be a host name
)

func resourceName(n *node) (string, error) { return checkName(n.text, maxNameLength) }

func checkName(s string, limit int) (string, error) {
	if s == "" {
		return "", errors.New("is empty: give it a name")
	}
	if len(s) > limit {
		return "", fmt.Errorf("is %d characters long: use at most %d", len(s), limit)
	}
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		inner := i > 0 && i < len(s)-1
		if !alnum && (!inner || !strings.ContainsRune("-._", rune(c))) {
			return "", errors.New("is not a name: use letters, digits, '-', '.' and '_', and a letter or digit at both ends")
		}
	}
	return s, nil
}

// reference is a bare name or a resource URL, of which the last segment counts.
func reference(n *node) (string, error) { return lastSegment(n.text, maxNameLength) }

func instanceReference(n *node) (string, error) { return lastSegment(n.text, maxInstanceLength) }

func lastSegment(s string, limit int) (string, error) {
	return checkName(s[strings.LastIndexByte(s, '/')+1:], limit)
}

// boolean takes the two words YAML 1.2 has, without quotes.
func boolean(n *node) (bool, error) {
	if n.plain {
		switch n.text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, errors.New("is not a boolean: write true or false, without quotes")
}

// decimal reads the plain decimal form and no other, so that 007, 0x1f and
// 1_000 do not mean different numbers to different readers.
func decimal(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == s
}

// integer takes lo..hi, quoted or not.
func integer(lo, hi int64) func(*node) (int, error) {
	return func(n *node) (int, error) {
		v, ok := decimal(n.text)
		if !ok {
			return 0, fmt.Errorf("is not a whole number: write one from %d to %d", lo, hi)
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("is out of range: use %d to %d", lo, hi)
		}
		return int(v), nil
	}
}

// seconds takes a whole number of seconds.
func seconds(lo, hi int64) func(*node) (time.Duration, error) {
	parse := integer(lo, hi)
	return func(n *node) (time.Duration, error) {
		if _, err := time.ParseDuration(n.text); err == nil && n.text != "0" {
			return 0, fmt.Errorf("has a unit: write the number of seconds alone, from %d to %d", lo, hi)
		}
		v, err := parse(n)
		return time.Duration(v) * time.Second, err
	}
}

func portNumber(n *node) (uint16, error) {
	if from, to, ok := strings.Cut(n.text, "-"); ok && from != "" && to != "" {
		return 0, errors.New("is a range: list up to 5 single ports, or set allPorts: true")
	}
	v, err := integer(1, 65535)(n)
	return uint16(v), err
}

// seed takes a 64-bit number, decimal or with 0x.
func seed(n *node) (uint64, error) {
	base, digits := 10, n.text
	if hex, ok := strings.CutPrefix(strings.ToLower(n.text), "0x"); ok {
		base, digits = 16, hex
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, errors.New("is not a 64-bit number: write 0 to 18446744073709551615, or 0x and up to 16 hex digits")
	}
	return v, nil
}

// oneOf takes one of the API's words, exactly as the API writes it.
func oneOf[S ~string](values ...S) func(*node) (S, error) {
	return oneOfExcept(nil, values...)
}

// oneOfExcept has words that are the API's but cannot apply, with the reason.
func oneOfExcept[S ~string](reasons map[string]string, values ...S) func(*node) (S, error) {
	words := make([]string, len(values))
	for i := range values {
		words[i] = string(values[i])
	}
	list := strings.Join(words, ", ")
	return func(n *node) (S, error) {
		for _, v := range values {
			if n.text == string(v) {
				return v, nil
			}
		}
		if reason := reasons[n.text]; reason != "" {
			return "", fmt.Errorf("cannot be used, %s: use %s", reason, list)
		}
		if near := nearest(n.text, words); near != "" {
			return "", fmt.Errorf("is not one of %s: did you mean %s?", list, near)
		}
		return "", fmt.Errorf("is not one of %s", list)
	}
}

// ascii takes up to limit bytes of ASCII.
func ascii(limit int) func(*node) (string, error) {
	return func(n *node) (string, error) {
		if len(n.text) > limit {
			return "", fmt.Errorf("is %d bytes long: use at most %d", len(n.text), limit)
		}
		for i := range len(n.text) {
			if n.text[i] > 127 {
				return "", errors.New("has a character that is not ASCII: use ASCII only")
			}
		}
		return n.text, nil
	}
}

// printable is ascii without blanks and control characters: what may stand in
// the head of a request.
func printable(n *node) (string, error) {
	s, err := ascii(2048)(n)
	if err == nil && strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 127 }) {
		return "", errors.New("has a blank or control character: remove or percent-encode it")
	}
	return s, err
}

func requestPath(n *node) (string, error) {
	s, err := printable(n)
	if err == nil && !strings.HasPrefix(s, "/") {
		return "", errors.New("does not begin with /: write a path such as /healthz")
	}
	return s, err
}

// serverName takes a DNS name, as TLS sends it.
func serverName(n *node) (string, error) {
	const mend = "is not a DNS name: write letters, digits and '-', with dots between labels"
	s := strings.TrimSuffix(n.text, ".")
	if s == "" || len(s) > maxInstanceLength {
		return "", errors.New(mend)
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return "", errors.New("is an address: TLS asks for names only, remove it")
	}
	for _, label := range strings.Split(s, ".") {
		if _, err := checkName(label, maxNameLength); err != nil || strings.Contains(label, "_") {
			return "", errors.New(mend)
		}
	}
	return s, nil
}
