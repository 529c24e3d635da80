// Table reads what internal/bench/machine and `go test -bench` print and writes
// one table of all that was measured side by side: ours, the other's and their
// ratio, which is above 1 where ours is better.
//
// Two forms are measured side by side: sub-benchmarks "ours" and another ("peer",
// or a baseline), and two metrics of one result, "X" or "ours-X" and "peer-X".
//
// Everything it reads it also passes on, to standard error. Files named on the
// command line (the README) get the table in Markdown, between the lines
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
	t, err := read(io.TeeReader(in, os.Stderr))
	if err != nil {
		return err
	}
	rows := t.rows()
	if len(rows) == 0 {
		return fmt.Errorf("nothing was measured side by side")
	}
	if err := writeText(out, t.facts, rows); err != nil {
		return err
	}
	for _, name := range files {
		if err := rewrite(name, markdown(t.facts, rows)); err != nil {
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
