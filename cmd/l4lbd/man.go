package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newManCommand(*env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "man --dir DIR",
		Short: "Write the man pages",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return eachCommand(c.Root(), func(c *cobra.Command) error {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				return os.WriteFile(filepath.Join(dir, name), []byte(manPage(c)), 0o644)
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` to write to; it must exist")
	_ = c.MarkFlagRequired("dir")
	_ = c.MarkFlagDirname("dir")
	return c
}

// eachCommand visits a command and those below it that people are to see.
func eachCommand(c *cobra.Command, visit func(*cobra.Command) error) error {
	if err := visit(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := eachCommand(sub, visit); err != nil {
			return err
		}
	}
	return nil
}

// manPage is the page of one command in roff. It has no date, so that the same
// binary always writes the same bytes.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	page := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"l4lb\" \"l4lb\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(page), page, roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(or(c.Long, c.Short)+"\n"))
	if flags := manFlags(c); flags != "" {
		b.WriteString(".SH OPTIONS\n" + flags)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.BR %s\\-%s (1)\n%s\n", roff(page), roff(sub.Name()), roff(sub.Short))
			}
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 bad usage or bad configuration.\n")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}

func manFlags(c *cobra.Command) string {
	var b strings.Builder
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		name := "\\fB\\-\\-" + roff(f.Name) + "\\fR"
		if f.Shorthand != "" {
			name = "\\fB\\-" + f.Shorthand + "\\fR, " + name
		}
		if value != "" {
			name += " \\fI" + roff(value) + "\\fR"
		}
		b.WriteString(name + "\n" + roff(usage) + "\n")
	})
	return b.String()
}

// roff escapes text and makes paragraphs of empty lines. Indented lines, which
// are examples, keep their breaks.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimRight(text, "\n"))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case line == "":
			lines[i] = ".PP"
		case line[0] == '\t' || strings.HasPrefix(line, "  "):
			lines[i] = ".br\n\\&" + line
		case line[0] == '.' || line[0] == '\'':
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
