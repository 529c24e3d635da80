package taskgraph

import (
	"fmt"
	"strings"

	"swh-scheduler/sql"
)

// DOT is the drawing in the language of Graphviz.
func (d Drawing) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph tasks {\n  label=%s;\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", dotText(d.Title))
	for i, box := range d.Boxes {
		fmt.Fprintf(&b, "  n%d [label=%s, fillcolor=%q];\n", i,
			dotText(box.Title+"\n"+box.Subtitle+"\n"+box.states()), colours[box.main()])
	}
	for _, a := range d.Arrows {
		label := ""
		if a.Count > 1 {
			label = fmt.Sprintf(" [label=\"%d\"]", a.Count)
		}
		fmt.Fprintf(&b, "  n%d -> n%d%s;\n", a.From, a.To, label)
	}
	b.WriteString("}\n")
	return b.String()
}

// states is how many tasks of a box stand where, or for one task just where.
func (b Box) states() string {
	var parts []string
	for _, state := range sql.GraphStates {
		switch n := b.Counts[state]; {
		case n == 1 && b.total() == 1:
			return string(state)
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

// dotText quotes a text: only quotes and backslashes matter to DOT, and a line
// ends with \n.
func dotText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
