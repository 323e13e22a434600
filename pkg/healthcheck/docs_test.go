package healthcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"l4lb/pkg/lb"
)

const page = "../../docs/setup/health-checks.md"

// firstCells returns the first cell of each row of the tables of a section,
// headings and rules left out.
func firstCells(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var cells []string
	for line := range strings.Lines(rest) {
		if columns := strings.Split(line, "|"); len(columns) > 3 && strings.TrimSpace(columns[2]) != "" {
			if cell := strings.TrimSpace(columns[1]); strings.HasPrefix(cell, "`") {
				cells = append(cells, strings.Trim(cell, "`"))
			}
		}
	}
	return cells
}

// TestDetailsAreDocumented holds the constants, the list and the page together.
func TestDetailsAreDocumented(t *testing.T) {
	var listed []string
	for _, d := range Details() {
		listed = append(listed, string(d))
	}
	if declared := declaredDetails(t); !slices.Equal(declared, listed) {
		t.Errorf("Details() is %v, declared are %v", listed, declared)
	}
	if documented := firstCells(t, "Details"); !slices.Equal(documented, listed) {
		t.Errorf("%s documents %v, want %v", page, documented, listed)
	}
	if got, want := firstCells(t, "States"), []string{string(lb.Unknown), string(lb.Healthy), string(lb.Unhealthy)}; !slices.Equal(got, want) {
		t.Errorf("%s documents the states %v, want %v", page, got, want)
	}
	weights := []string{string(lb.WeightInvalid), string(lb.WeightMissing), string(lb.WeightUnavailable), string(lb.WeightNone)}
	if got := firstCells(t, "Weights"); !slices.Equal(got, weights) {
		t.Errorf("%s documents the weight errors %v, want %v", page, got, weights)
	}
}

// TestLogFieldsAreDocumented looks for each field of an entry on the page.
func TestLogFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Log\n")
	for _, key := range logKeys {
		if slices.Contains([]string{"time", "level", "msg"}, key) {
			continue
		}
		if !strings.Contains(section, "`"+key+"`") {
			t.Errorf("%s does not name the log field %s", page, key)
		}
	}
}

// declaredDetails reads the constants of type Detail from the source.
func declaredDetails(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "result.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Detail" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
		return true
	})
	return values
}
