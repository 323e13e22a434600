package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commandsDoc = "../../docs/setup/commands.md"

var (
	commandHead = regexp.MustCompile("^### `(l4lbd[a-z ]*)`: (.*)$")
	flagRow     = regexp.MustCompile("^\\| `(-[^`]*)` \\| (.*) \\|$")
)

// Each command has a heading with its short text, and under it a row for each of
// its flags with the flag's text.
func TestCommandsAndTheirDocumentAgree(t *testing.T) {
	text, err := os.ReadFile(commandsDoc)
	if err != nil {
		t.Fatal(err)
	}
	documented, current := map[string]string{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if m := commandHead.FindStringSubmatch(line); m != nil {
			current = m[1]
			documented[current] = m[2]
		} else if m := flagRow.FindStringSubmatch(line); m != nil {
			documented[current+" "+m[1]] = m[2]
		}
	}
	real := map[string]string{}
	err = eachCommand(newRootCommand(&env{}), func(c *cobra.Command) error {
		if c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion" {
			return nil // cobra's own
		}
		real[c.CommandPath()] = c.Short
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !f.Hidden {
				real[c.CommandPath()+" "+flagName(f)] = flagText(f)
			}
		})
		return nil
	})
	if diff := cmp.Diff(real, documented); diff != "" || err != nil {
		t.Errorf("%s, %v (-real +documented):\n%s", commandsDoc, err, diff)
	}
}

// flagName is "-o, --output FORMAT".
func flagName(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	return strings.TrimSpace(name + " " + value)
}

func flagText(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	return usage
}
