package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	fence      = regexp.MustCompile("(?ms)^[ \t]*(```|~~~).*?^[ \t]*(```|~~~)[ \t]*$")
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	heading    = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*$`)
)

// links returns the targets of a document's relative links.
func links(text string) []string {
	text = fence.ReplaceAllString(text, "")
	text = codeSpan.ReplaceAllString(text, "")
	var out []string
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			out = append(out, m[1])
		}
	}
	return out
}

// anchors returns the names that a document's headings can be linked by.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out[anchor(m[1])] = true
	}
	return out
}

// anchor is how the common renderers make a name of a heading: lower case,
// spaces to hyphens, everything but letters, digits, hyphens and underscores
// left out.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func TestRelativeLinksResolve(t *testing.T) {
	for _, doc := range withExt(tree(t), ".md") {
		for _, link := range links(doc.text) {
			target, section, _ := strings.Cut(link, "#")
			linked := doc.path
			if target != "" {
				linked = path.Join(path.Dir(doc.path), target)
			}
			text, err := os.ReadFile(filepath.Join(root, linked))
			if _, statErr := os.Stat(filepath.Join(root, linked)); statErr != nil {
				t.Errorf("%s: %s: there is no %s", doc.path, link, linked)
				continue
			}
			if section != "" && (err != nil || !anchors(string(text))[section]) {
				t.Errorf("%s: %s: %s has no heading %q", doc.path, link, linked, section)
			}
		}
	}
}

func TestLinksAreFound(t *testing.T) {
	text := "see [a](a.md), [b](../b.md#part-1) and [web](https://example.com)\n" +
		"`[no](code.md)`\n```\n[no](fence.md)\n```\n## Part 1: `x.y`, more\n"
	if got, want := strings.Join(links(text), " "), "a.md ../b.md#part-1"; got != want {
		t.Errorf("links = %q, want %q", got, want)
	}
	if got := anchors(text); !got["part-1-xy-more"] || len(got) != 1 {
		t.Errorf("anchors = %v", got)
	}
}
