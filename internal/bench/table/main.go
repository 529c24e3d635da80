// Table reads the CSV in which benchstat lays sides beside each other, and writes a
// table in Markdown of ours, the other's and their ratio, which is above 1 where ours
// is better. Benchstat says only whether sides differ, and that of six runs and more.
//
// Files named on the command line (the README) get the table, too, between the lines
// "<!-- bench -->" and "<!-- /bench -->"; a run that measured nothing side by side
// is an error and leaves them as they are.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, files []string) error {
	facts, rows, err := read(in)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("nothing was measured side by side")
	}
	text := markdown(facts, rows)
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	for _, name := range files {
		if err := rewrite(name, text); err != nil {
			return err
		}
	}
	return nil
}

const begin, end = "<!-- bench -->\n", "<!-- /bench -->\n"

// rewrite replaces what is between the markers of a file.
func rewrite(name, text string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(content, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return fmt.Errorf("%s has no lines %q and %q", name, begin[:len(begin)-1], end[:len(end)-1])
	}
	return os.WriteFile(name, fmt.Appendf(nil, "%s%s%s%s%s", before, begin, text, end, after), 0o644)
}
