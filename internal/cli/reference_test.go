package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/testenv"
)

// docs/reference/commands.md has the help, synopsis and options of each command. Man pages have the same text.
func TestCommandsInTheReference(t *testing.T) {
	t.Parallel()
	const page = "../../docs/reference/commands.md"
	root := Root("", io.Discard, io.Discard)
	var all strings.Builder
	describe := func(cmd *cobra.Command, heading string) {
		help := strings.TrimSpace(cmd.Long)
		if help == "" {
			help = strings.TrimSpace(cmd.Short)
		}
		fmt.Fprintf(&all, "\n### %s\n\n```text\n%s\n\n%s\n", heading, cmd.UseLine(), help)
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.AddFlagSet(cmd.NonInheritedFlags())
		flags.AddFlagSet(cmd.InheritedFlags()) // of its group
		if options := flags.FlagUsages(); options != "" {
			fmt.Fprintf(&all, "\n%s", options)
		}
		all.WriteString("```\n")
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			if below.Hidden || below.Name() == "help" {
				continue
			}
			if !below.HasSubCommands() || below.HasAvailableLocalFlags() { // options of a group are written after its name
				describe(below, below.CommandPath())
			}
			walk(below)
		}
	}
	describe(root, "Options of all commands")
	walk(root)
	text := strings.ReplaceAll(all.String(), "\t", "    ")
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	testenv.Generated(t, page, "commands", strings.Join(lines, "\n")+"\n")
}

// The readers of keys in docs/reference/configuration.md are commands that exist.
func TestReadersOfKeys(t *testing.T) {
	t.Parallel()
	root := Root("", io.Discard, io.Discard)
	found := 0
	for line := range strings.Lines(string(testenv.Read(t, "../../docs/reference/configuration.md"))) {
		readers, ok := strings.CutPrefix(line, "- Read by: ")
		if !ok {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z][a-z -]*)`").FindAllStringSubmatch(readers, -1) {
			found++
			if cmd, rest, err := root.Find(strings.Fields(m[1])); err != nil || len(rest) > 0 || cmd == root {
				t.Errorf("there is no command %s", m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d readers are found", found)
	}
}
