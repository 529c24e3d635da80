package taskgraph

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/graphs"
)

// Line is a graph in a list.
type Line struct {
	ID        int64      `json:"graph"`
	Name      string     `json:"name"`
	Submitted time.Time  `json:"submitted"`
	Cancelled *time.Time `json:"cancelled"`
	Tasks     int64      `json:"tasks"`
	Waiting   int64      `json:"waiting"`
	Ready     int64      `json:"ready"`
	Sent      int64      `json:"sent"`    // without a known start
	Running   int64      `json:"running"` // started by workers
	Completed int64      `json:"completed"`
	Failed    int64      `json:"failed"`
	NeverRun  int64      `json:"never_run"`
	More      bool       `json:"more,omitempty"` // further tasks were not counted
}

// Text formats a graph of a list; bold makes text bold.
func (g Line) Text(now time.Time, bold func(string) string) string {
	name := ""
	if g.Name != "" {
		name = " (" + g.Name + ")"
	}
	cancelled := ""
	if g.Cancelled != nil {
		cancelled = ", cancelled " + ago(*g.Cancelled, now)
	}
	return fmt.Sprintf("\n%s%s\n  Submitted: %s%s\n  Tasks: %s\n", bold(fmt.Sprintf("Graph %d", g.ID)), name, ago(g.Submitted, now), cancelled, g.Counts())
}

// Counts formats the number of tasks in each state.
func (g Line) Counts() string {
	parts := []string{fmt.Sprintf("%d in all", g.Tasks)}
	for _, c := range []struct {
		n    int64
		what string
	}{
		{g.Waiting, "waiting"}, {g.Ready, "ready"}, {g.Sent, "sent"}, {g.Running, "running"}, {g.Completed, "completed"},
		{g.Failed, "failed"}, {g.NeverRun, "never to run"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

func ago(at, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", pytext.ISOFormat(at.UTC().Truncate(time.Second)), explain.Roughly(now.Sub(at)))
}

// stateTexts has the texts of states that are shown differently from their names.
var stateTexts = map[model.GraphState]string{
	model.GraphByDependency: "never to run: a dependency failed",
	model.GraphSkipped:      "skipped: a dependency ended otherwise than they ask for",
	model.GraphByDeadline:   "never to run: waited longer than the deadline",
	model.GraphCancelled:    "never to run: cancelled",
}

// Text formats the report; bold makes text bold.
func (r Report) Text(now time.Time, bold func(string) string) string {
	var b strings.Builder
	b.WriteString(bold(fmt.Sprintf("Graph %d", r.Graph)))
	if r.Name != "" {
		fmt.Fprintf(&b, " (%s)", r.Name)
	}
	fmt.Fprintf(&b, "\n  Submitted: %s\n", ago(r.Submitted, now))
	if r.Cancelled != nil {
		fmt.Fprintf(&b, "  Cancelled: %s\n", ago(*r.Cancelled, now))
	}
	fmt.Fprintf(&b, "  Progress: %s %d of %s ended\n", progressBar(r.Ended, r.Tasks), r.Ended, model.Count(r.Tasks, "task has", "tasks have"))
	for _, state := range model.GraphStates {
		if n := r.States[state]; n > 0 {
			fmt.Fprintf(&b, "    %d %s\n", n, cmp.Or(stateTexts[state], string(state)))
		}
	}
	if len(r.Failed) > 0 {
		fmt.Fprintf(&b, "  Failed: %s\n", enumerate(stepTexts(r.Failed, now), r.States[model.GraphFailed]))
	}
	if r.Ended == r.Tasks {
		return b.String()
	}
	waitsFor := stepTexts(r.WaitsFor, now)
	if r.WaitsForMore > 0 {
		waitsFor = append(waitsFor, fmt.Sprintf("%d more", r.WaitsForMore))
	}
	if len(waitsFor) > 0 {
		fmt.Fprintf(&b, "  Waits now for: %s\n", strings.Join(waitsFor, ", "))
	}
	if len(r.Outside) > 0 {
		fmt.Fprintf(&b, "  Depends on tasks outside: %s\n", strings.Trim(fmt.Sprint(r.Outside), "[]"))
	}
	r.future(&b, now)
	return b.String()
}

// future writes the critical path and the expected end.
func (r Report) future(b *strings.Builder, now time.Time) {
	const named = 8
	var path []string
	for _, step := range r.CriticalPath {
		path = append(path, step.Name)
	}
	if len(path) > named {
		path = append(append(path[:named/2:named/2], fmt.Sprintf("… %d more …", len(path)-named)), path[len(path)-named/2:]...)
	}
	fmt.Fprintf(b, "  Critical path: %s (%s", strings.Join(path, " → "), model.Count(len(r.CriticalPath), "task", "tasks"))
	if r.PathSeconds > 0 {
		fmt.Fprintf(b, ", %s", explain.RoughSeconds(r.PathSeconds))
	}
	b.WriteString(")\n")
	if len(r.UnknownTypes) > 0 && r.EndUnknown() == "" {
		fmt.Fprintf(b, "  No runtime is known of: %s\n", enumerate(r.UnknownTypes, len(r.UnknownTypes)))
	}
	if r.ExpectedEnd != nil {
		fmt.Fprintf(b, "  Expected end: %s (in %s)\n", pytext.ISOFormat(*r.ExpectedEnd), explain.Roughly(r.ExpectedEnd.Sub(now)))
	}
	if why := r.EndUnknown(); why != "" {
		fmt.Fprintf(b, "  Expected end: unknown, as %s\n", why)
	}
	if r.AwaitsWorker != nil {
		fmt.Fprintf(b, "  Expected end: unknown, as no worker has begun %s (task %d)\n", r.AwaitsWorker.Name, r.AwaitsWorker.Task)
	}
}

func stepTexts(steps []Step, now time.Time) []string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		state := string(s.State)
		if s.ByHand {
			state = "to be released by hand"
		}
		switch {
		case s.Since == nil:
		case s.State == model.GraphRunning:
			state = "running for " + explain.Roughly(now.Sub(*s.Since))
		default:
			state = "sent " + explain.Roughly(now.Sub(*s.Since)) + " ago, not begun"
		}
		texts[i] = fmt.Sprintf("%s (task %d, %s)", s.Name, s.Task, state)
	}
	return texts
}

func describeDependency(d graphs.Dependency) string {
	name := ""
	if d.Name != "" {
		name = fmt.Sprintf("%s of graph %d, ", d.Name, d.Graph)
	}
	return fmt.Sprintf("task %d (%s%s)", d.ID, name, d.Status)
}

// enumerate joins texts, the first ones of total, at most ten, and adds how many more there are.
func enumerate(texts []string, total int) string {
	const most = 10
	texts = texts[:min(most, len(texts))]
	text := strings.Join(texts, ", ")
	if total > len(texts) {
		text += fmt.Sprintf(" and %d more", total-len(texts))
	}
	return text
}

func progressBar(done, whole int) string {
	const width = 30
	full := width * done / max(1, whole)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

type Size struct {
	Tasks        int `json:"tasks"`
	Dependencies int `json:"dependencies"`
	Ready        int `json:"ready"`             // tasks without dependencies
	Removed      int `json:"removed,omitempty"` // dependencies that an extension removed
}

func sizeOf(tasks []graphs.NewTask) Size {
	size := Size{Tasks: len(tasks)}
	for _, t := range tasks {
		n := len(t.DependsOn)
		size.Dependencies += n
		if n == 0 {
			size.Ready++
		}
	}
	return size
}

func (s Size) String() string {
	text := fmt.Sprintf("%s, %s, %d to run at once", model.Count(s.Tasks, "task", "tasks"), model.Count(s.Dependencies, "dependency", "dependencies"), s.Ready)
	if s.Removed > 0 {
		text += fmt.Sprintf(", %s removed", model.Count(s.Removed, "dependency", "dependencies"))
	}
	return text
}
