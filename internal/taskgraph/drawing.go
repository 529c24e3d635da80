package taskgraph

import (
	"cmp"
	"fmt"
	"slices"

	"swh-scheduler/sql"
)

// Drawing is a graph as boxes and arrows, level by level: a box is a task, or in
// a large graph all tasks of a type at one level.
type Drawing struct {
	Title  string
	Boxes  []Box
	Arrows []Arrow
	Levels int
}

// Box is one task or several.
type Box struct {
	Level, Row int
	Title      string
	Subtitle   string
	Counts     map[sql.GraphState]int
}

// Arrow goes from what has to end first to what waits for it; Count dependencies.
type Arrow struct{ From, To, Count int }

// A graph is drawn task by task if it has no more tasks than drawnTasks, and no
// more dependencies than drawnEdges. A larger one has at most drawnLevels levels,
// each standing for as many of its own as needed.
const (
	drawnTasks  = 150
	drawnEdges  = 600
	drawnLevels = 50
)

// Draw lays a graph out.
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
			box := Box{Level: k.level, Row: rows[k.level], Title: t.Name, Subtitle: t.Type, Counts: map[sql.GraphState]int{}}
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

// levels are how many dependencies, one after the other, each task has before it.
func (d dependencies) levels() []int {
	levels := make([]int, len(d.inside))
	for i, inside := range d.inside {
		for _, on := range inside {
			levels[i] = max(levels[i], levels[on]+1)
		}
	}
	return levels
}

// connect draws the arrows, those between the same boxes as one.
func (d *Drawing) connect(deps dependencies, boxOf []int) {
	counts := map[[2]int]int{}
	for i, inside := range deps.inside {
		for _, on := range inside {
			if boxOf[on] != boxOf[i] { // several levels in one
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

// main is the state of a box that says most: what failed before what goes on.
func (b Box) main() sql.GraphState {
	for _, state := range []sql.GraphState{
		sql.GraphFailed, sql.GraphByDependency, sql.GraphByDeadline, sql.GraphCancelled,
		sql.GraphRunning, sql.GraphReady, sql.GraphWaiting,
	} {
		if b.Counts[state] > 0 {
			return state
		}
	}
	return sql.GraphCompleted
}

// colours of the states, light enough for black text.
var colours = map[sql.GraphState]string{
	sql.GraphWaiting:      "#e3e6ea",
	sql.GraphReady:        "#cfe3ff",
	sql.GraphRunning:      "#ffe9a8",
	sql.GraphCompleted:    "#bfe8c5",
	sql.GraphFailed:       "#f5b5ae",
	sql.GraphByDependency: "#f3d3cf",
	sql.GraphByDeadline:   "#f0c9e0",
	sql.GraphCancelled:    "#c9cdd3",
}
