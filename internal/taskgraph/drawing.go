package taskgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"swh-scheduler/sql/db"
)

// Drawing is a graph as boxes in levels, and arrows. A box is a task, or in a large graph
// all tasks of a type at one level.
type Drawing struct {
	Title  string
	Boxes  []Box
	Arrows []Arrow
	Levels int
}

type Box struct {
	Level, Row int
	Title      string
	Subtitle   string
	Counts     map[db.GraphState]int
}

// Arrow goes from Count dependencies to the tasks that wait for them.
type Arrow struct{ From, To, Count int }

// A graph with more tasks than drawnTasks or more dependencies than drawnEdges is drawn
// with a box for each type, and at most drawnLevels levels, which merge its own.
const (
	drawnTasks  = 150
	drawnEdges  = 600
	drawnLevels = 50
)

func (g Graph) Draw() Drawing {
	deps := g.dependencies()
	levels := deps.levels()
	collapsed := len(g.Tasks) > drawnTasks || len(g.Edges) > drawnEdges
	title := fmt.Sprintf("graph %d", g.Summary.ID)
	if g.Summary.Name != "" {
		title += ": " + g.Summary.Name
	}
	d := Drawing{Title: fmt.Sprintf("%s, %d tasks", title, len(g.Tasks))}
	if depth := slices.Max(append(levels, 0)) + 1; collapsed && depth > drawnLevels {
		for i := range levels {
			levels[i] = levels[i] * drawnLevels / depth
		}
	}
	type group struct {
		level int
		key   string
	}
	places := map[group]int{}
	boxOf := make([]int, len(g.Tasks))
	rows := map[int]int{}
	for i, t := range g.Tasks {
		k := group{levels[i], t.Type}
		if !collapsed {
			k.key = t.Name
		}
		place, found := places[k]
		if !found {
			place = len(d.Boxes)
			places[k] = place
			box := Box{Level: k.level, Row: rows[k.level], Title: t.Name, Subtitle: t.Type, Counts: map[db.GraphState]int{}}
			d.Boxes = append(d.Boxes, box)
			rows[k.level]++
			d.Levels = max(d.Levels, k.level+1)
		}
		d.Boxes[place].Counts[t.State]++
		boxOf[i] = place
	}
	if collapsed {
		for i := range d.Boxes {
			b := &d.Boxes[i]
			b.Title, b.Subtitle = cmp.Or(b.Subtitle, "deleted"), fmt.Sprintf("%d tasks", b.total())
		}
	}
	d.connect(deps, boxOf)
	return d
}

func (b Box) total() (n int) {
	for _, count := range b.Counts {
		n += count
	}
	return n
}

// levels returns the length of the longest chain of dependencies before each task.
func (d dependencies) levels() []int {
	levels := make([]int, len(d.inside))
	for i, inside := range d.inside {
		for _, on := range inside {
			levels[i] = max(levels[i], levels[on]+1)
		}
	}
	return levels
}

// connect adds one arrow between any two boxes.
func (d *Drawing) connect(deps dependencies, boxOf []int) {
	counts := map[[2]int]int{}
	for i, inside := range deps.inside {
		for _, on := range inside {
			if boxOf[on] != boxOf[i] { // not merged levels
				counts[[2]int{boxOf[on], boxOf[i]}]++
			}
		}
		if deps.itself[i] {
			counts[[2]int{boxOf[i], boxOf[i]}]++
		}
	}
	for ends, n := range counts {
		d.Arrows = append(d.Arrows, Arrow{ends[0], ends[1], n})
	}
	slices.SortFunc(d.Arrows, func(a, b Arrow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
}

// main returns the most important state of a box: failed ones first.
func (b Box) main() db.GraphState {
	for _, state := range []db.GraphState{
		db.GraphFailed, db.GraphByDependency, db.GraphByDeadline, db.GraphCancelled,
		db.GraphRunning, db.GraphReady, db.GraphWaiting, db.GraphSkipped,
	} {
		if b.Counts[state] > 0 {
			return state
		}
	}
	return db.GraphCompleted
}

// colours of the states, light enough for black text.
var colours = map[db.GraphState]string{
	db.GraphWaiting:      "#e3e6ea",
	db.GraphReady:        "#cfe3ff",
	db.GraphRunning:      "#ffe9a8",
	db.GraphCompleted:    "#bfe8c5",
	db.GraphFailed:       "#f5b5ae",
	db.GraphByDependency: "#f3d3cf",
	db.GraphSkipped:      "#e9ecdf",
	db.GraphByDeadline:   "#f0c9e0",
	db.GraphCancelled:    "#c9cdd3",
}

// DOT returns the drawing in the language of Graphviz.
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

// states returns the number of tasks in each state, or the state of a single task.
func (b Box) states() string {
	var parts []string
	for _, state := range db.GraphStates {
		switch n := b.Counts[state]; {
		case n == 1 && b.total() == 1:
			return string(state)
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func dotText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
