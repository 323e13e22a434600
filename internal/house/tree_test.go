// Package house holds the rules of this repository that no linter knows, as
// tests: who may import whom, that links resolve, that documents use
// documentation addresses, how long a file may grow. It has no code of its own.
package house

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is where this package's tests find the repository.
const root = "../.."

// file is one text file of the repository.
type file struct {
	path string // from the root, with slashes
	text string
}

func (f file) lines() []string { return strings.Split(f.text, "\n") }

func (f file) ext() string { return filepath.Ext(f.path) }

// generated reports whether a tool wrote the file.
func (f file) generated() bool {
	head, _, _ := strings.Cut(f.text, "\npackage ")
	return strings.Contains(head, "// Code generated ")
}

// licence reports whether the file is the text of a licence, which is not ours.
func (f file) licence() bool { return strings.HasPrefix(filepath.Base(f.path), "LICENSE") }

// tree reads every text file of the repository that may be committed.
func tree(t *testing.T) []file {
	t.Helper()
	skip := []string{".git", "bin", "dist"}
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains(skip, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.ContainsRune(text, 0) {
			files = append(files, file{path: rel, text: string(text)})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	if len(files) == 0 {
		t.Fatal("the repository has no files")
	}
	return files
}

// withExt keeps the files that have one of the extensions.
func withExt(files []file, exts ...string) []file {
	var kept []file
	for _, f := range files {
		if slices.Contains(exts, f.ext()) {
			kept = append(kept, f)
		}
	}
	return kept
}
