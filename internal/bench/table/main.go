// Table reads the output of benchmarks of package bench and writes tables in Markdown. The first compares our
// scheduler with the Python scheduler and with limits; a ratio above 1 is in our favour. The second has the costs of
// our triggers for the Python scheduler, and of features for ours. The third has daemons that use the database
// through an RPC server.
//
// With -write DIRECTORY, the root of the repository, it writes the tables to docs/devel/evidence/measurements.md, between
// the lines "<!-- bench -->" and "<!-- /bench -->". It writes some rows to docs/explanation/performance.md and README.md
// in the same way, and a plot to docs/explanation/performance.svg. That requires a complete run: all benchmarks in titles, five runs of each side,
// and a PostgreSQL with the default durability. Otherwise it returns an error and leaves the files unchanged.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	directory := flag.String("write", "", "write the tables and the plot to the repository at `DIRECTORY`")
	list := flag.Bool("list", false, "print the names of the table's benchmarks, as a regular expression, and no more")
	flag.Parse()
	if *list {
		var names []string
		for _, t := range titles {
			names = append(names, t.benchmark)
		}
		fmt.Println(strings.Join(names, "|"))
		return
	}
	if err := run(os.Stdin, os.Stdout, *directory); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, directory string) error {
	m, err := read(in)
	if err != nil {
		return err
	}
	comparisons, costs, roads := m.comparisons(), m.costs(), m.roads()
	if len(comparisons)+len(costs)+len(roads) == 0 {
		if directory != "" {
			return fmt.Errorf("nothing was measured side by side")
		}
		return nil // the figures are above
	}
	text := m.where() + comparisonTable(comparisons) + costTable(costs) + roadTable(roads)
	if _, err := io.WriteString(out, text); err != nil || directory == "" {
		return err
	}
	if err := m.isWhole(); err != nil {
		return err
	}
	short, err := chosen(comparisons, inReadme)
	if err != nil {
		return err
	}
	page, err := chosen(comparisons, inPage)
	if err != nil {
		return err
	}
	paid := slices.DeleteFunc(slices.Clone(costs), func(c cost) bool { return !slices.Contains(costsInPage, c.benchmark) })
	explanation := filepath.Join(directory, "docs", "explanation")
	for name, text := range map[string]string{
		filepath.Join(directory, "docs", "devel", "evidence", "measurements.md"): text,
		filepath.Join(explanation, "performance.md"):                             m.where() + comparisonTable(page) + costTable(paid) + roadTable(roads),
		filepath.Join(directory, "README.md"):                                    m.where() + comparisonTable(short),
	} {
		if err := rewrite(name, text); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(explanation, "performance.svg"), m.plot(), 0o644)
}

const begin, end = "<!-- bench -->\n", "<!-- /bench -->\n"

// rewrite replaces the text between the markers of a file.
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
