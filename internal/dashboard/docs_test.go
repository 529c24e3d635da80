package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

const pageInDocs = "../../docs/reference/dashboard.md"

// The documentation's table of actions is generated from the code.
func TestActionsInTheDocs(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| action | on | roles | effect |\n|---|---|---|---|\n")
	rows := func(on string, operations []operation) {
		for _, o := range operations {
			effect := o.Means
			if o.Warning != "" {
				effect += " " + o.Warning + " (confirm)"
			}
			fmt.Fprintf(&table, "| %s | %s | `%s` | %s |\n", o.Text, on, strings.Join(o.needs.words(), "`, `"), effect)
		}
	}
	rows("tasks", taskOperations)
	rows("graphs", graphOperations)
	rows("hosters", hosterOperations)
	table.WriteString("\n")
	testenv.Generated(t, pageInDocs, "actions", table.String())
}

// The documentation has a row for each page, with the parameters of its address.
func TestPagesInTheDocs(t *testing.T) {
	t.Parallel()
	lines := strings.Split(string(testenv.Read(t, pageInDocs)), "\n")
	for _, p := range pages {
		i := slices.IndexFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "|") && strings.Contains(line, "| `"+p.Path+"` |")
		})
		if i < 0 {
			t.Errorf("there is no row of %s", p.Path)
			continue
		}
		for _, name := range p.Query {
			if p.Path != tasksPage.Path && !strings.Contains(lines[i], "`"+name+"`") {
				t.Errorf("the row of %s lacks its parameter %s", p.Path, name)
			}
		}
	}
}
