package taskgraph

import (
	"cmp"
	"slices"
	"time"

	"swh-scheduler/sql"
)

// Graph is a stored graph, as read from the database.
type Graph struct {
	Summary  sql.GraphSummary
	Tasks    []sql.GraphTask // each after those it depends on
	Edges    []sql.GraphEdge
	Runtimes map[string]time.Duration // of task types, where known
	// Ended is how many tasks had a run that ended within Within, lately.
	Ended  int64
	Within time.Duration
}

// Report says how a graph stands.
type Report struct {
	Graph     int64                  `json:"graph"`
	Name      string                 `json:"name"`
	Submitted time.Time              `json:"submitted"`
	Cancelled *time.Time             `json:"cancelled"`
	Tasks     int                    `json:"tasks"`
	States    map[sql.GraphState]int `json:"states"`
	Ended     int                    `json:"ended"` // tasks that have ended in any way
	// WaitsFor are tasks that can go on now, or that wait for nothing but
	// somebody to release them; the first few, in order.
	WaitsFor     []Step  `json:"waits_for"`
	WaitsForMore int     `json:"waits_for_more"` // how many else
	Outside      []int64 `json:"outside"`        // dependencies of what waits that are not in the graph; the first few
	// Failed are tasks that failed by themselves, the first few.
	Failed       []Step     `json:"failed"`
	CriticalPath []Step     `json:"critical_path"` // of what has not ended
	PathSeconds  float64    `json:"critical_path_seconds"`
	UnknownTypes []string   `json:"types_without_runtime"` // counted as taking no time
	ExpectedEnd  *time.Time `json:"expected_end"`          // nil if it has ended, or nothing is known
}

// Step is a task in a report.
type Step struct {
	Task   int64          `json:"task"`
	Name   string         `json:"name"`
	Type   string         `json:"type"`
	State  sql.GraphState `json:"state"`
	ByHand bool           `json:"by_hand,omitempty"` // it depends on itself
}

// shown bounds the lists of a report.
const shown = 10

// Report describes the graph at a moment.
func (g Graph) Report(now time.Time) Report {
	r := Report{
		Graph: g.Summary.ID, Name: g.Summary.Name, Submitted: g.Summary.Submitted, Cancelled: g.Summary.Cancelled,
		Tasks: len(g.Tasks), States: map[sql.GraphState]int{},
		WaitsFor: []Step{}, Failed: []Step{}, Outside: []int64{}, UnknownTypes: []string{},
	}
	for _, state := range sql.GraphStates {
		r.States[state] = 0
	}
	dependencies := g.dependencies()
	unknown := map[string]bool{}
	for i, t := range g.Tasks {
		r.States[t.State]++
		step := Step{Task: t.ID, Name: t.Name, Type: t.Type, State: t.State}
		switch {
		case !t.State.Open():
			r.Ended++
			if t.State == sql.GraphFailed && len(r.Failed) < shown {
				r.Failed = append(r.Failed, step)
			}
			continue
		case t.State == sql.GraphWaiting:
			step.ByHand = dependencies.onlyItself(g.Tasks, i)
			if !step.ByHand {
				break
			}
			fallthrough
		default:
			if len(r.WaitsFor) < shown {
				r.WaitsFor = append(r.WaitsFor, step)
			} else {
				r.WaitsForMore++
			}
		}
		if t.State == sql.GraphWaiting {
			r.Outside = append(r.Outside, dependencies.outside[i]...)
		}
		if _, known := g.Runtimes[t.Type]; !known && !unknown[t.Type] {
			unknown[t.Type] = true
			r.UnknownTypes = append(r.UnknownTypes, t.Type)
		}
	}
	slices.Sort(r.Outside)
	r.Outside = slices.Compact(r.Outside)
	r.Outside = r.Outside[:min(shown, len(r.Outside))]
	path, length := g.criticalPath(dependencies)
	r.CriticalPath, r.PathSeconds = path, length.Seconds()
	r.ExpectedEnd = g.expectedEnd(now, length, len(g.Tasks)-r.Ended)
	return r
}

// expectedEnd is when the longest chain of what is left could have ended, or when
// all of it will have at the pace of late, if that is later.
func (g Graph) expectedEnd(now time.Time, path time.Duration, open int) *time.Time {
	if open == 0 {
		return nil
	}
	var byPace time.Duration
	if g.Ended > 0 {
		byPace = time.Duration(float64(open) / float64(g.Ended) * float64(g.Within))
	}
	left := max(path, byPace)
	if left == 0 {
		return nil
	}
	return new(now.Add(left).UTC().Truncate(time.Second))
}

// dependencies are those of each task, by place in Graph.Tasks.
type dependencies struct {
	inside  [][]int
	outside [][]int64
	itself  []bool
}

func (g Graph) dependencies() dependencies {
	d := dependencies{make([][]int, len(g.Tasks)), make([][]int64, len(g.Tasks)), make([]bool, len(g.Tasks))}
	place := make(map[int64]int, len(g.Tasks))
	for i, t := range g.Tasks {
		place[t.ID] = i
	}
	for _, e := range g.Edges {
		i := place[e.Task]
		on, here := place[e.DependsOn]
		switch {
		case !here:
			d.outside[i] = append(d.outside[i], e.DependsOn)
		case on == i:
			d.itself[i] = true
		default:
			d.inside[i] = append(d.inside[i], on)
		}
	}
	return d
}

// onlyItself says whether of the dependencies in the graph only the task itself
// is left.
func (d dependencies) onlyItself(tasks []sql.GraphTask, i int) bool {
	return d.itself[i] && !slices.ContainsFunc(d.inside[i], func(on int) bool { return tasks[on].State.Open() })
}

// criticalPath is the chain of tasks that have not ended that takes longest, by
// the runtimes of their types, and how long that is. Among equals it has the most
// tasks.
func (g Graph) criticalPath(d dependencies) ([]Step, time.Duration) {
	type chain struct {
		took  time.Duration
		tasks int
		after int // place of the one before, or -1
	}
	longer := func(a, b chain) bool {
		return cmp.Or(cmp.Compare(a.took, b.took), cmp.Compare(a.tasks, b.tasks)) > 0
	}
	chains := make([]chain, len(g.Tasks))
	last := -1
	for i, t := range g.Tasks {
		best := chain{after: -1}
		for _, on := range d.inside[i] {
			if c := (chain{chains[on].took, chains[on].tasks, on}); g.Tasks[on].State.Open() && longer(c, best) {
				best = c
			}
		}
		best.took += g.Runtimes[t.Type]
		best.tasks++
		chains[i] = best
		if t.State.Open() && (last < 0 || longer(best, chains[last])) {
			last = i
		}
	}
	path := []Step{}
	if last < 0 {
		return path, 0
	}
	for i := last; i >= 0; i = chains[i].after {
		t := g.Tasks[i]
		path = append(path, Step{Task: t.ID, Name: t.Name, Type: t.Type, State: t.State})
	}
	slices.Reverse(path)
	return path, chains[last].took
}
