package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*?(## .+)?$`)
	makeSpan   = regexp.MustCompile("`make\\s+([^`]+)`")
	makeLine   = regexp.MustCompile(`(?m)^[ \t]*(?:[$#] )?make[ \t]+([^#\n]+)`)
	targetName = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// makeTargets maps the targets of a Makefile to their help text.
func makeTargets(text string) map[string]string {
	out := map[string]string{}
	for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// makeCalls returns the targets that a document tells its reader to make: in
// code spans, or as a command on a line of its own in a code block. Variables
// and options beside them are left out.
func makeCalls(text string) []string {
	found := makeLine.FindAllStringSubmatch(strings.Join(fence.FindAllString(text, -1), "\n"), -1)
	found = append(found, makeSpan.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1)...)
	var out []string
	for _, m := range found {
		for _, word := range strings.Fields(m[1]) {
			if targetName.MatchString(word) {
				out = append(out, word)
			}
		}
	}
	return out
}

func TestDocumentsNameRealTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := makeTargets(string(makefile))
	for name, help := range targets {
		if help == "" {
			t.Errorf("Makefile: %s has no help after ##", name)
		}
	}
	for _, doc := range withExt(tree(t), ".md") {
		for _, name := range makeCalls(doc.text) {
			if _, ok := targets[name]; !ok {
				t.Errorf("%s: make %s: the Makefile has no such target", doc.path, name)
			}
		}
	}
}

func TestMakeCallsAreFound(t *testing.T) {
	text := "run `make lab A=b` or\n```sh\nmake test\n# make fmt lint\n```\nWe\nmake do with `make\nrace`.\n"
	if got, want := makeCalls(text), []string{"test", "fmt", "lint", "lab", "race"}; !slices.Equal(got, want) {
		t.Errorf("makeCalls = %q, want %q", got, want)
	}
	got := makeTargets("CC := x\nbuild: dep ## builds\n\techo a: b\n.PHONY: build\nbare:\n")
	if len(got) != 2 || got["build"] != "## builds" || got["bare"] != "" {
		t.Errorf("makeTargets = %v", got)
	}
}
