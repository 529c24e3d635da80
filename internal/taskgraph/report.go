package taskgraph

import (
	"cmp"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
)

type Report struct {
	Graph     int64                    `json:"graph"`
	Name      string                   `json:"name"`
	Submitted time.Time                `json:"submitted"`
	Cancelled *time.Time               `json:"cancelled"`
	Tasks     int                      `json:"tasks"`
	States    map[model.GraphState]int `json:"states"`
	Ended     int                      `json:"ended"` // tasks that have ended in any way
	// WaitsFor, Outside and Failed have at most ten entries.
	WaitsFor     []Step     `json:"waits_for"`             // tasks that wait for no other task but have not ended
	WaitsForMore int        `json:"waits_for_more"`        // number of further tasks
	Outside      []int64    `json:"outside"`               // dependencies of waiting tasks that are not in the graph
	Failed       []Step     `json:"failed"`                // tasks that failed themselves
	CriticalPath []Step     `json:"critical_path"`         // of unfinished tasks
	PathBefore   []Step     `json:"path_before"`           // the tasks that the critical path waited for; of a graph that has ended, the tasks that led to its end
	PathSeconds  float64    `json:"critical_path_seconds"` // sum of the remaining runtimes
	UnknownTypes []string   `json:"types_without_runtime"` // their runtimes count as zero
	ExpectedEnd  *time.Time `json:"expected_end"`          // nil if the graph has ended, the end is unknown, or AwaitsWorker
	// AwaitsWorker is the first task of the critical path that no worker has started, if no task of the graph runs or
	// has ended lately.
	AwaitsWorker *Step `json:"awaits_worker"`
}

type Step struct {
	Task   int64            `json:"task"`
	Name   string           `json:"name"`
	Type   string           `json:"type"`
	State  model.GraphState `json:"state"`
	ByHand bool             `json:"by_hand,omitempty"` // it depends on itself: an operator releases it
	Since  *time.Time       `json:"since,omitempty"`   // when it was sent, or when a worker started it; nil in other states
	// Seconds is the rest of the mean runtime of its type, on a critical path; 0: none, or unknown.
	Seconds float64 `json:"seconds,omitempty"`
}

func stepOf(t graphs.Task) Step {
	return Step{Task: t.ID, Name: t.Name, Type: t.Type, State: t.State, Since: t.Since}
}

// shown is the largest length of a report's lists.
const shown = 10

func (g Graph) Report(now time.Time) Report {
	r := Report{
		Graph: g.Summary.ID, Name: g.Summary.Name, Submitted: g.Summary.Submitted, Cancelled: g.Summary.Cancelled,
		Tasks: len(g.Tasks), States: map[model.GraphState]int{},
		WaitsFor: []Step{}, Failed: []Step{}, Outside: []int64{}, UnknownTypes: []string{},
	}
	for _, state := range model.GraphStates {
		r.States[state] = 0
	}
	dependencies := g.dependencies()
	for i, t := range g.Tasks {
		r.States[t.State]++
		step := stepOf(t)
		switch {
		case !t.State.Open():
			r.Ended++
			if t.State == model.GraphFailed && len(r.Failed) < shown {
				r.Failed = append(r.Failed, step)
			}
			continue
		case t.State == model.GraphWaiting:
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
		if t.State == model.GraphWaiting {
			r.Outside = append(r.Outside, dependencies.outside[i]...)
		}
		if _, known := g.Runtimes[t.Type]; !known && !slices.Contains(r.UnknownTypes, t.Type) {
			r.UnknownTypes = append(r.UnknownTypes, t.Type)
		}
	}
	slices.Sort(r.Outside)
	r.Outside = slices.Compact(r.Outside)
	r.Outside = r.Outside[:min(shown, len(r.Outside))]
	path, length := g.criticalPath(dependencies, now)
	r.CriticalPath, r.PathBefore, r.PathSeconds = path, g.pathBefore(dependencies, path), length.Seconds()
	if ended := g.endedLately(now); len(path) > 0 && path[0].State == model.GraphSent && r.States[model.GraphRunning]+ended == 0 {
		r.AwaitsWorker = &path[0]
	} else {
		r.ExpectedEnd = g.expectedEnd(now, length, len(g.Tasks)-r.Ended, ended, len(r.UnknownTypes) == 0)
	}
	return r
}

// expectedEnd returns when the longest chain of open tasks ends, or when all open tasks end at the recent pace,
// whichever is later. It returns nil if that is less than a second and the runtimes of some open tasks are unknown.
func (g Graph) expectedEnd(now time.Time, path time.Duration, open, ended int, complete bool) *time.Time {
	if open == 0 {
		return nil
	}
	left := path
	if ended > 0 {
		left = max(left, time.Duration(float64(open)/float64(ended)*float64(g.PaceWindow)))
	}
	if left == 0 || left < time.Second && !complete {
		return nil
	}
	return new(now.Add(left).UTC().Truncate(time.Second))
}

// EndUnknown returns why the report has no expected end; "" if it has one, if the graph has ended, or if AwaitsWorker
// is the reason.
func (r Report) EndUnknown() string {
	switch {
	case r.ExpectedEnd != nil || r.AwaitsWorker != nil || r.Ended == r.Tasks:
		return ""
	case len(r.UnknownTypes) > 0:
		return "no runtime is known of " + enumerate(r.UnknownTypes, len(r.UnknownTypes))
	}
	return "its tasks have run for longer than their mean runtime"
}

// endedLately counts the tasks that ended in the period over which the pace is measured.
func (g Graph) endedLately(now time.Time) (n int) {
	for _, end := range g.Ends {
		if end.After(now.Add(-g.PaceWindow)) {
			n++
		}
	}
	return n
}

// left returns the rest of the mean runtime of a task's type: 0 for a task that has run for longer.
func (g Graph) left(t graphs.Task, now time.Time) time.Duration {
	runtime := g.Runtimes[t.Type]
	if t.State == model.GraphRunning && t.Since != nil {
		runtime -= max(0, now.Sub(*t.Since))
	}
	return max(0, runtime)
}

// dependencies are the dependencies of each task, by index in Graph.Tasks.
type dependencies struct {
	inside  [][]int
	outside [][]int64
	itself  []bool
}

func (g Graph) dependencies() dependencies {
	d := dependencies{make([][]int, len(g.Tasks)), make([][]int64, len(g.Tasks)), make([]bool, len(g.Tasks))}
	place := g.places()
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

// places returns the index of each task in Graph.Tasks, by its id.
func (g Graph) places() map[int64]int {
	place := make(map[int64]int, len(g.Tasks))
	for i, t := range g.Tasks {
		place[t.ID] = i
	}
	return place
}

// onlyItself reports whether the only unfinished dependency of a task is the task itself.
func (d dependencies) onlyItself(tasks []graphs.Task, i int) bool {
	return d.itself[i] && !slices.ContainsFunc(d.inside[i], func(on int) bool { return tasks[on].State.Open() })
}

// pathBefore returns the tasks that led to a critical path, the latest first: of the dependencies of its first task,
// the one that ended last, and so on. Without a critical path it starts with the task that ended last.
func (g Graph) pathBefore(d dependencies, path []Step) []Step {
	before := []Step{}
	last := func(among []int) int {
		found := -1
		for _, i := range among {
			if end, ended := g.Ends[g.Tasks[i].ID]; ended && (found < 0 || end.After(g.Ends[g.Tasks[found].ID])) {
				found = i
			}
		}
		return found
	}
	var at int
	if len(path) > 0 {
		at = last(d.inside[g.places()[path[0].Task]])
	} else {
		all := make([]int, len(g.Tasks))
		for i := range all {
			all[i] = i
		}
		at = last(all)
	}
	for ; at >= 0; at = last(d.inside[at]) {
		before = append(before, stepOf(g.Tasks[at]))
	}
	slices.Reverse(before)
	return before
}

// Ran returns the tasks that were sent or run, then those that ended, the latest first.
func (g Graph) Ran() []Step {
	var ran []Step
	for _, t := range g.Tasks {
		if _, ended := g.Ends[t.ID]; ended || t.State.WithWorkers() {
			ran = append(ran, stepOf(t))
		}
	}
	slices.SortStableFunc(ran, func(a, b Step) int {
		if open := a.State.WithWorkers(); open != b.State.WithWorkers() {
			if open {
				return -1
			}
			return 1
		}
		return g.Ends[b.Task].Compare(g.Ends[a.Task])
	})
	return ran
}

// criticalPath returns the chain of open tasks with the longest remaining runtime, and that runtime. Of equally long
// chains it chooses one with most tasks.
func (g Graph) criticalPath(d dependencies, now time.Time) ([]Step, time.Duration) {
	type chain struct {
		left  time.Duration
		tasks int
		after int // index of the task before, or -1
	}
	longer := func(a, b chain) bool {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.tasks, b.tasks)) > 0
	}
	chains := make([]chain, len(g.Tasks))
	last := -1
	for i, t := range g.Tasks {
		best := chain{after: -1}
		for _, on := range d.inside[i] {
			if c := (chain{chains[on].left, chains[on].tasks, on}); g.Tasks[on].State.Open() && longer(c, best) {
				best = c
			}
		}
		best.left += g.left(t, now)
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
		step := stepOf(g.Tasks[i])
		step.Seconds = g.left(g.Tasks[i], now).Seconds()
		path = append(path, step)
	}
	slices.Reverse(path)
	return path, chains[last].left
}
