package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a configuration file. Line and Col start at 1.
type Error struct {
	File      string
	Line, Col int
	Msg       string // what is wrong and how to mend it
}

// Error formats the mistake as compilers do: file:line:col: message.
func (e Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// Errors are all mistakes of a file, sorted by position. It is never empty.
type Errors []Error

// Error puts each mistake on a line of its own.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As the single mistakes.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i := range e {
		out[i] = e[i]
	}
	return out
}

// pos is a place in the file; both numbers start at 1.
type pos struct{ line, col int }

// report collects what is wrong with one file.
type report struct {
	file  string
	errs  Errors
	warns Errors
}

func (r *report) errorf(p pos, format string, args ...any) {
	r.errs = append(r.errs, Error{r.file, p.line, p.col, fmt.Sprintf(format, args...)})
}

func (r *report) warnf(p pos, format string, args ...any) {
	r.warns = append(r.warns, Error{r.file, p.line, p.col, fmt.Sprintf(format, args...)})
}

// err is nil when nothing is wrong.
func (r *report) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return sorted(r.errs)
}

func (r *report) warnings() []Error { return sorted(r.warns) }

// sorted orders by position and leaves out what was found twice.
func sorted(list Errors) Errors {
	slices.SortStableFunc(list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(list)
}
