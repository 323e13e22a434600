package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// choice is a flag that takes one of some words.
type choice struct {
	value   string
	allowed []string
}

// String, Set and Type implement pflag.Value.
func (c *choice) String() string { return c.value }

// Set refuses what is not allowed.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("use %s", strings.Join(c.allowed, " or "))
	}
	c.value = s
	return nil
}

// Type is what help shows for the value.
func (c *choice) Type() string { return "FORMAT" }

// output is the -o flag of commands that read.
type output struct{ choice }

func (o *output) register(c *cobra.Command) {
	o.choice = choice{value: "table", allowed: []string{"table", "json"}}
	c.Flags().VarP(&o.choice, "output", "o", "output `FORMAT`: table, for people, or json, for programs")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// print writes v as JSON, or else as the table that show draws.
func (o *output) print(w io.Writer, v any, show func(*table)) error {
	if o.value == "json" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	show(t)
	return t.w.Flush()
}

// table is aligned columns.
type table struct{ w *tabwriter.Writer }

// row writes one line. An empty cell shows as "-".
func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		if text[i] = fmt.Sprint(c); text[i] == "" {
			text[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(text, "\t"))
}

// line writes text that belongs to no column.
func (t *table) line(text string) { fmt.Fprintln(t.w, text) }

// age says how long ago a moment was, in whole seconds.
func age(now, then time.Time) string {
	return now.Sub(then).Truncate(time.Second).String()
}

// yes is for cells that are true or false.
func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// or is a cell's text, or another where there is none.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
