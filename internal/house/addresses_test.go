package house

import (
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allowed are the prefixes that documents and examples may use: those set
// aside for documentation, 10/8 for zones, what a host needs (loopback,
// link-local, the default route), and the cloud's own probe sources.
var allowed = prefixes(
	"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32",
	"10.0.0.0/8", "127.0.0.0/8", "0.0.0.0/32", "224.0.0.0/24", "255.255.255.0/24",
	"::/127", "fe80::/10", "ff02::/16",
	"35.191.0.0/16", "130.211.0.0/22",
)

var (
	ipv4Like = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	ipv6Like = regexp.MustCompile(`(?:^|[^\w:.])([0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)`)
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// strangers returns the addresses in a text that are outside the allowed
// prefixes.
func strangers(text string) []string {
	var out []string
	candidates := ipv4Like.FindAllString(text, -1)
	for _, m := range ipv6Like.FindAllStringSubmatch(text, -1) {
		candidates = append(candidates, m[1])
	}
	for _, s := range candidates {
		addr, err := netip.ParseAddr(strings.TrimRight(s, "."))
		if err != nil {
			continue
		}
		addr = addr.Unmap()
		if !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			out = append(out, s)
		}
	}
	return out
}

// isExample reports whether a file is one that people copy addresses from.
func isExample(f file) bool {
	switch path.Ext(f.path) {
	case ".md", ".yaml", ".yml", ".service", ".network", ".netdev":
		return true
	}
	return false
}

func TestDocumentsUseDocumentationAddresses(t *testing.T) {
	for _, f := range tree(t) {
		if !isExample(f) {
			continue
		}
		for i, line := range f.lines() {
			for _, s := range strangers(line) {
				t.Errorf("%s:%d: %s is not a documentation address", f.path, i+1, s)
			}
		}
	}
}

func TestStrangersAreFound(t *testing.T) {
	got := strangers("192.0.2.1 8.8.4.4. 10.1.2.3/16 2001:db8::1 2600::7 ::1 lb::x 02:4c:00:00:00:01 ::ffff:9.9.9.9")
	want := []string{"8.8.4.4", "9.9.9.9", "2600::7", "::ffff:9.9.9.9"}
	if !slices.Equal(got, want) {
		t.Errorf("strangers = %q, want %q", got, want)
	}
}
