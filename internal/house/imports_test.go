package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "l4lb"

// mayImport says which packages of ours each package under pkg may import,
// tests left out. Interfaces live with their consumer, which is what keeps the
// lists short. cmd may import everything; internal packages serve tests and
// the lab and may import everything but cmd.
var mayImport = map[string][]string{
	"pkg/lb":          {},
	"pkg/config":      {"pkg/lb"},
	"pkg/selector":    {"pkg/lb"},
	"pkg/healthcheck": {"pkg/lb"},
	"pkg/conntrack":   {"pkg/lb"},
	"pkg/neigh":       {"pkg/lb"},
	"pkg/nlwatch":     {},
	"pkg/probe":       {"pkg/lb", "pkg/encap", "pkg/nlwatch"},
	"pkg/decap":       {"pkg/lb", "pkg/nlwatch"},
	"pkg/announce":    {"pkg/lb"},
	"pkg/encap":       {"pkg/lb"},
	"pkg/loader":      {"pkg/lb", "pkg/conntrack", "pkg/encap"},
	"pkg/controller":  {"pkg/lb", "pkg/encap", "pkg/selector", "pkg/healthcheck", "pkg/conntrack", "pkg/loader", "pkg/neigh", "pkg/probe", "pkg/announce"},
	// What is suspected must not reach those who decide: passive is imported by
	// those who show it, and never by what writes maps.
	"pkg/passive": {"pkg/lb"},
	"pkg/metrics": {"pkg/lb", "pkg/selector", "pkg/healthcheck", "pkg/loader", "pkg/neigh", "pkg/controller", "pkg/passive"},
	"pkg/admin":   {"pkg/lb", "pkg/conntrack", "pkg/selector"},
	"pkg/daemon": {
		"pkg/lb", "pkg/config", "pkg/selector", "pkg/healthcheck", "pkg/conntrack", "pkg/loader", "pkg/neigh",
		"pkg/probe", "pkg/announce", "pkg/controller", "pkg/metrics", "pkg/admin", "pkg/passive",
	},
	"pkg/capture": {"pkg/loader"},
	"pkg/replay":  {"pkg/lb", "pkg/selector", "pkg/loader", "pkg/controller"},
	"pkg/model":   {"pkg/lb", "pkg/selector"},
	"pkg/bench":   {"pkg/lb", "pkg/selector", "pkg/loader", "pkg/encap"},
	"pkg/doctor":  {"pkg/lb", "pkg/encap", "pkg/admin", "pkg/announce", "pkg/healthcheck", "pkg/probe", "pkg/decap"},
	"pkg/lab":     {"pkg/lb", "pkg/config", "pkg/selector", "pkg/admin", "internal/netlab"},
}

// kernelFree never reach these modules, not even through another package of
// ours: they are tested without root and could run anywhere.
var (
	kernelFree    = []string{"pkg/lb", "pkg/config", "pkg/selector", "pkg/healthcheck", "pkg/passive", "pkg/encap"}
	kernelModules = []string{"github.com/cilium/ebpf", "github.com/vishvananda/netlink", "github.com/vishvananda/netns"}
)

// pkg is one package of the module.
type pkg struct {
	doc     bool // a file that is not generated has a package comment
	imports map[string]bool
}

// packages parses every package of the module, keyed by its directory. A test
// file counts for the doc comment alone.
func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	out := map[string]*pkg{}
	for _, f := range withExt(tree(t), ".go") {
		if strings.HasPrefix(f.path, "tools/") || strings.Contains(f.path, "/testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Errorf("parse: %v", err)
			continue
		}
		dir := path.Dir(f.path)
		if out[dir] == nil {
			out[dir] = &pkg{imports: map[string]bool{}}
		}
		out[dir].add(f, parsed)
	}
	return out
}

func (p *pkg) add(f file, parsed *ast.File) {
	p.doc = p.doc || parsed.Doc != nil && !f.generated()
	if strings.HasSuffix(f.path, "_test.go") {
		return
	}
	for _, spec := range parsed.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			p.imports[name] = true
		}
	}
}

// own strips the module's name from an import path; ok says whether it is ours.
func own(importPath string) (dir string, ok bool) { return strings.CutPrefix(importPath, module+"/") }

func TestPackagesImportInOneDirection(t *testing.T) {
	for dir, p := range packages(t) {
		for _, name := range slices.Sorted(maps.Keys(p.imports)) {
			target, ours := own(name)
			if ours && strings.HasPrefix(target, "cmd/") {
				t.Errorf("%s imports %s: nothing imports a command", dir, name)
			}
			rule, known := mayImport[dir]
			if ours && known && !slices.Contains(rule, target) {
				t.Errorf("%s imports %s: it may import only %v of this module", dir, name, rule)
			}
			if dir == "pkg/lb" && strings.Contains(name, ".") {
				t.Errorf("%s imports %s: it may import only the standard library", dir, name)
			}
		}
	}
}

// A package that no rule names would escape the rules.
func TestEveryPackageUnderPkgHasARule(t *testing.T) {
	for dir := range packages(t) {
		if _, known := mayImport[dir]; strings.HasPrefix(dir, "pkg/") && !known {
			t.Errorf("%s: say in mayImport what it may import", dir)
		}
	}
}

func TestPurePackagesDoNotReachTheKernel(t *testing.T) {
	all := packages(t)
	for _, start := range kernelFree {
		if trail := reach(all, start, kernelModules, map[string]bool{}); trail != nil {
			t.Errorf("%s reaches the kernel: %s", start, strings.Join(trail, " -> "))
		}
	}
}

// reach finds a chain of imports from a package of ours to one of the modules.
func reach(all map[string]*pkg, dir string, modules []string, seen map[string]bool) []string {
	if seen[dir] || all[dir] == nil {
		return nil
	}
	seen[dir] = true
	for _, name := range slices.Sorted(maps.Keys(all[dir].imports)) {
		if slices.ContainsFunc(modules, func(m string) bool { return name == m || strings.HasPrefix(name, m+"/") }) {
			return []string{dir, name}
		}
		if target, ours := own(name); ours {
			if trail := reach(all, target, modules, seen); trail != nil {
				return append([]string{dir}, trail...)
			}
		}
	}
	return nil
}

func TestReachFollowsImports(t *testing.T) {
	all := map[string]*pkg{
		"pkg/a": {imports: map[string]bool{"l4lb/pkg/b": true, "fmt": true}},
		"pkg/b": {imports: map[string]bool{"github.com/cilium/ebpf/link": true}},
	}
	got := strings.Join(reach(all, "pkg/a", kernelModules, map[string]bool{}), " ")
	if want := "pkg/a pkg/b github.com/cilium/ebpf/link"; got != want {
		t.Errorf("reach = %q, want %q", got, want)
	}
	if got := reach(all, "pkg/b", []string{"github.com/cilium/eb"}, map[string]bool{}); got != nil {
		t.Errorf("reach matched half a name: %v", got)
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for dir, p := range packages(t) {
		if !p.doc {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}
