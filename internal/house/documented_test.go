package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// schemaCalls are the functions of pkg/config that name a key in their first
// argument.
var schemaCalls = []string{"scalar", "scalars", "nested", "objects", "present", "only"}

// configKeys finds the keys that the schema of pkg/config accepts.
func configKeys(t *testing.T, name, text string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	var keys []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains(schemaCalls, called(call.Fun)) {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if key, err := strconv.Unquote(lit.Value); err == nil {
				keys = append(keys, key)
			}
		}
		return true
	})
	return keys
}

// called is the name of a function that is called, type arguments left out.
func called(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.IndexExpr:
		return called(fun.X)
	}
	return ""
}

// undocumented returns the names that do not stand as a word in the document.
func undocumented(t *testing.T, doc string, names []string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, doc))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`\w+`).FindAllString(string(text), -1) {
		words[w] = true
	}
	missing := map[string]bool{}
	for _, n := range names {
		if !words[n] {
			missing[n] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

func TestEveryConfigKeyIsDocumented(t *testing.T) {
	var keys []string
	for _, f := range withExt(tree(t), ".go") {
		if strings.HasPrefix(f.path, "pkg/config/") && !strings.HasSuffix(f.path, "_test.go") {
			keys = append(keys, configKeys(t, f.path, f.text)...)
		}
	}
	if len(keys) < 50 {
		t.Fatalf("found only %d keys in pkg/config: has the schema changed its form?", len(keys))
	}
	const doc = "docs/setup/configuration.md"
	for _, key := range undocumented(t, doc, keys) {
		t.Errorf("%s: configuration key %s is missing", doc, key)
	}
}

var reasonConstant = regexp.MustCompile(`(?m)^\tREASON_(\w+),`)

func TestEveryReasonIsDocumented(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(root, "bpf/include/reason.h"))
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, m := range reasonConstant.FindAllStringSubmatch(string(header), -1) {
		if m[1] != "NONE" && m[1] != "MAX" {
			reasons = append(reasons, m[1])
		}
	}
	if len(reasons) < 10 {
		t.Fatalf("found only %d reasons: has the header changed its form?", len(reasons))
	}
	const doc = "docs/setup/reasons.md"
	for _, reason := range undocumented(t, doc, reasons) {
		t.Errorf("%s: reason %s is missing", doc, reason)
	}
}

func TestConfigKeysAreFound(t *testing.T) {
	const text = `package config
var s = object(scalar("name", x), only[service]("enableCDN", "no", "false"), nested("a", f(object(objects("b", g)))), other("no"))`
	if got, want := configKeys(t, "x.go", text), []string{"name", "enableCDN", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("configKeys = %q, want %q", got, want)
	}
}
