package main

import (
	"fmt"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql"
)

// graphLine is a graph in a list.
type graphLine struct {
	ID        int64      `json:"graph"`
	Name      string     `json:"name"`
	Submitted time.Time  `json:"submitted"`
	Cancelled *time.Time `json:"cancelled"`
	Tasks     int64      `json:"tasks"`
	Waiting   int64      `json:"waiting"`
	Ready     int64      `json:"ready"`
	Running   int64      `json:"running"`
	Completed int64      `json:"completed"`
	Failed    int64      `json:"failed"`
	NeverRun  int64      `json:"never_run"`
}

// graphLine is the text of it.
func (a *app) graphLine(g sql.GraphSummary, now time.Time) string {
	name := ""
	if g.Name != "" {
		name = " (" + g.Name + ")"
	}
	cancelled := ""
	if g.Cancelled != nil {
		cancelled = ", cancelled " + ago(*g.Cancelled, now)
	}
	return fmt.Sprintf("\n%s%s\n  Submitted: %s%s\n  Tasks: %s\n", a.bold(fmt.Sprintf("Graph %d", g.ID)), name, ago(g.Submitted, now), cancelled, graphCounts(g))
}

func graphCounts(g sql.GraphSummary) string {
	parts := []string{fmt.Sprintf("%d in all", g.Tasks)}
	for _, c := range []struct {
		n    int64
		what string
	}{
		{g.Waiting, "waiting"}, {g.Ready, "ready"}, {g.Running, "running"}, {g.Completed, "completed"},
		{g.Failed, "failed"}, {g.NeverRun, "never to run"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// ago is a moment in the past, and how long that is.
func ago(at, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", pytext.ISOFormat(at.UTC().Truncate(time.Second)), explain.Roughly(now.Sub(at)))
}

// What states are called for people, where that is not their name.
var stateTexts = map[sql.GraphState]string{
	sql.GraphByDependency: "never to run: a dependency failed",
	sql.GraphByDeadline:   "never to run: waited longer than the deadline",
	sql.GraphCancelled:    "never to run: cancelled",
}

// graphReport is the text of a report.
func (a *app) graphReport(r taskgraph.Report, now time.Time) string {
	var b strings.Builder
	b.WriteString(a.bold(fmt.Sprintf("Graph %d", r.Graph)))
	if r.Name != "" {
		fmt.Fprintf(&b, " (%s)", r.Name)
	}
	fmt.Fprintf(&b, "\n  Submitted: %s\n", ago(r.Submitted, now))
	if r.Cancelled != nil {
		fmt.Fprintf(&b, "  Cancelled: %s\n", ago(*r.Cancelled, now))
	}
	fmt.Fprintf(&b, "  Progress: %s %d of %d tasks have ended\n", progressBar(r.Ended, r.Tasks), r.Ended, r.Tasks)
	for _, state := range sql.GraphStates {
		if n := r.States[state]; n > 0 {
			text := stateTexts[state]
			if text == "" {
				text = string(state)
			}
			fmt.Fprintf(&b, "    %d %s\n", n, text)
		}
	}
	if len(r.Failed) > 0 {
		fmt.Fprintf(&b, "  Failed: %s\n", enumerate(stepTexts(r.Failed), r.States[sql.GraphFailed]))
	}
	if r.Ended == r.Tasks {
		return b.String()
	}
	waitsFor := stepTexts(r.WaitsFor)
	if r.WaitsForMore > 0 {
		waitsFor = append(waitsFor, fmt.Sprintf("%d more", r.WaitsForMore))
	}
	if len(waitsFor) > 0 {
		fmt.Fprintf(&b, "  Waits now for: %s\n", strings.Join(waitsFor, ", "))
	}
	if len(r.Outside) > 0 {
		fmt.Fprintf(&b, "  Depends on tasks outside: %s\n", strings.Trim(fmt.Sprint(r.Outside), "[]"))
	}
	a.graphFuture(&b, r, now)
	return b.String()
}

// graphFuture writes what is still to be done.
func (a *app) graphFuture(b *strings.Builder, r taskgraph.Report, now time.Time) {
	const named = 8
	var path []string
	for _, step := range r.CriticalPath {
		path = append(path, step.Name)
	}
	if len(path) > named {
		path = append(append(path[:named/2:named/2], fmt.Sprintf("… %d more …", len(path)-named)), path[len(path)-named/2:]...)
	}
	fmt.Fprintf(b, "  Critical path: %s (%s", strings.Join(path, " → "), howMany(len(r.CriticalPath), "task", "tasks"))
	if r.PathSeconds > 0 {
		fmt.Fprintf(b, ", %s", explain.Roughly(time.Duration(r.PathSeconds*float64(time.Second))))
	}
	b.WriteString(")\n")
	if len(r.UnknownTypes) > 0 {
		fmt.Fprintf(b, "  No runtime is known of: %s\n", enumerate(r.UnknownTypes, len(r.UnknownTypes)))
	}
	if r.ExpectedEnd != nil {
		fmt.Fprintf(b, "  Expected end: %s (in %s)\n", pytext.ISOFormat(*r.ExpectedEnd), explain.Roughly(r.ExpectedEnd.Sub(now)))
	}
}

func stepTexts(steps []taskgraph.Step) []string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		state := string(s.State)
		if s.ByHand {
			state = "to be released by hand"
		}
		texts[i] = fmt.Sprintf("%s (task %d, %s)", s.Name, s.Task, state)
	}
	return texts
}

// describeDependency is what a task waits for, in words.
func describeDependency(d sql.Dependency) string {
	name := ""
	if d.Name != "" {
		name = fmt.Sprintf("%s of graph %d, ", d.Name, d.Graph)
	}
	return fmt.Sprintf("task %d (%s%s)", d.ID, name, d.Status)
}

// enumerate joins texts; there may be more than these in all.
func enumerate(texts []string, total int) string {
	const most = 10
	if len(texts) > most {
		texts = texts[:most]
	}
	text := strings.Join(texts, ", ")
	if total > len(texts) {
		text += fmt.Sprintf(" and %d more", total-len(texts))
	}
	return text
}

// howMany is a number of things.
func howMany(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// progressBar shows how much of a whole is done.
func progressBar(done, whole int) string {
	const width = 30
	full := 0
	if whole > 0 {
		full = width * done / whole
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
