package taskgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
)

// Drawing is a graph as boxes in levels with arrows between them. A box is a task or, in a large graph,
// all tasks of a type on one level.
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
	Task       int64  // number of its task; 0: several tasks of a type
	Type       string // of its tasks
	Counts     map[model.GraphState]int
}

// Arrow stands for Count dependencies with the same condition between the tasks of two boxes.
type Arrow struct {
	From, To int
	On       graphs.Condition
	Count    int
}

// A graph with more tasks than drawnTasks or more dependencies than drawnEdges is drawn with a box for each
// task type, on at most drawnLevels levels.
const (
	drawnTasks  = 150
	drawnEdges  = 600
	drawnLevels = 50
)

func (g Graph) Draw() Drawing {
	levels := g.dependencies().levels()
	collapsed := len(g.Tasks) > drawnTasks || len(g.Edges) > drawnEdges
	title := fmt.Sprintf("graph %d", g.Summary.ID)
	if g.Summary.Name != "" {
		title += ": " + g.Summary.Name
	}
	d := Drawing{Title: title + ", " + model.Count(len(g.Tasks), "task", "tasks")}
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
			box := Box{Level: k.level, Row: rows[k.level], Title: t.Name, Subtitle: t.Type, Task: t.ID, Type: t.Type, Counts: map[model.GraphState]int{}}
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
			b.Task = 0
			b.Title, b.Subtitle = cmp.Or(b.Subtitle, "deleted"), model.Count(b.total(), "task", "tasks")
		}
	}
	d.connect(g, boxOf)
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

// connect adds one arrow between any two boxes for each condition.
func (d *Drawing) connect(g Graph, boxOf []int) {
	place := g.places()
	counts := map[Arrow]int{}
	for _, e := range g.Edges {
		on, inside := place[e.DependsOn]
		to := place[e.Task]
		if !inside || boxOf[on] == boxOf[to] && on != to { // within a box of merged levels
			continue
		}
		a := Arrow{From: boxOf[on], To: boxOf[to], On: graphs.OnCompleted}
		if e.Needs != nil {
			a.On = graphs.Condition(*e.Needs)
		} else if g.Tasks[to].AnyResult {
			a.On = graphs.OnResolved
		}
		counts[a]++
	}
	for a, n := range counts {
		a.Count = n
		d.Arrows = append(d.Arrows, a)
	}
	slices.SortFunc(d.Arrows, func(a, b Arrow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.On, b.On))
	})
}

// label returns the arrow's label: the condition if it isn't the default, and the number of dependencies if it
// exceeds one.
func (a Arrow) label() string {
	var parts []string
	if a.On != graphs.OnCompleted {
		parts = append(parts, string(a.On))
	}
	if a.Count > 1 {
		parts = append(parts, strconv.Itoa(a.Count))
	}
	return strings.Join(parts, " ")
}

// main returns the most important state of a box's tasks, failures first.
func (b Box) main() model.GraphState {
	for _, state := range []model.GraphState{
		model.GraphFailed, model.GraphByDependency, model.GraphByDeadline, model.GraphCancelled,
		model.GraphRunning, model.GraphSent, model.GraphReady, model.GraphWaiting, model.GraphSkipped,
	} {
		if b.Counts[state] > 0 {
			return state
		}
	}
	return model.GraphCompleted
}

// colours are those of the states, light enough for black text.
var colours = map[model.GraphState]string{
	model.GraphWaiting:      "#e3e6ea",
	model.GraphReady:        "#cfe3ff",
	model.GraphSent:         "#dcd5f5",
	model.GraphRunning:      "#ffe9a8",
	model.GraphCompleted:    "#bfe8c5",
	model.GraphFailed:       "#f5b5ae",
	model.GraphByDependency: "#f3d3cf",
	model.GraphSkipped:      "#e9ecdf",
	model.GraphByDeadline:   "#f0c9e0",
	model.GraphCancelled:    "#c9cdd3",
}

// strokes has the styles of arrows by condition.
var strokes = map[graphs.Condition]struct{ colour, dot, dashes string }{
	graphs.OnCompleted: {colour: "#666677"},
	graphs.OnResolved:  {colour: "#666677", dot: "dashed", dashes: "5 4"},
	graphs.OnFailed:    {colour: "#b03a2e"},
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
		style := strokes[a.On]
		fmt.Fprintf(&b, "  n%d -> n%d [label=%q, color=%q, style=%s];\n", a.From, a.To, a.label(), style.colour, cmp.Or(style.dot, "solid"))
	}
	b.WriteString("}\n")
	return b.String()
}

// states returns the number of tasks in each state, or the state of a single task.
func (b Box) states() string {
	var parts []string
	for _, state := range model.GraphStates {
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
