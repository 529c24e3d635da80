package taskgraph

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
)

// graph makes a graph of lines "name type state [dependency…]". Line numbers are task numbers. A dependency is a
// name, or the number of a task outside of the graph, with a condition such as :failed.
func graph(lines ...string) Graph {
	g := Graph{Summary: graphs.Summary{ID: 7, Name: "g", Submitted: now}}
	ids := map[string]int64{}
	for i, line := range lines {
		words := strings.Fields(line)
		id := int64(i + 1)
		ids[words[0]] = id
		g.Tasks = append(g.Tasks, graphs.Task{ID: id, Name: words[0], Type: words[1], State: model.GraphState(words[2])})
		for _, word := range words[3:] {
			name, condition, conditional := strings.Cut(word, ":")
			on, inside := ids[name]
			if !inside {
				_, _ = fmt.Sscan(name, &on)
			}
			edge := graphs.Edge{Task: id, DependsOn: on}
			if conditional {
				edge.Needs = &condition
			}
			g.Edges = append(g.Edges, edge)
		}
	}
	return g
}

func stepNames(steps []Step) string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// A report names the tasks that can go on, those to release by hand, those that failed, and the chain of open tasks
// with the longest runtime.
func TestReport(t *testing.T) {
	g := graph(
		"list list completed",
		"a load running list 800",
		"b slow ready list",
		"c load waiting a",
		"d load failed list",
		"e load dependency d",
		"approve check waiting list approve 900",
		"later check waiting later c",
		"join check waiting a b c",
	)
	g.Runtimes = map[string]time.Duration{"load": time.Minute, "slow": 10 * time.Minute}
	r := g.Report(now)
	if got := stepNames(r.WaitsFor); got != "a b approve" || !r.WaitsFor[2].ByHand || r.WaitsFor[1].ByHand {
		t.Errorf("waits for %s", got)
	}
	if got := stepNames(r.CriticalPath); got != "b join" || r.PathSeconds != 600 || r.CriticalPath[0].Seconds != 600 || r.CriticalPath[1].Seconds != 0 {
		t.Errorf("critical path %s, %v s: %+v", got, r.PathSeconds, r.CriticalPath)
	}
	if got := stepNames(r.Failed); got != "d" {
		t.Errorf("failed: %s", got)
	}
	if diff := cmp.Diff([]int64{900}, r.Outside); diff != "" {
		t.Errorf("outside: %s", diff)
	}
	if diff := cmp.Diff([]string{"check"}, r.UnknownTypes); diff != "" {
		t.Errorf("unknown types: %s", diff)
	}
	if r.Ended != 3 || r.States[model.GraphWaiting] != 4 || !r.ExpectedEnd.Equal(now.Add(10*time.Minute)) {
		t.Errorf("%d ended, %v, end %s", r.Ended, r.States, r.ExpectedEnd)
	}
	// Six open tasks at ten an hour take longer than the longest chain.
	g.PaceWindow, g.Ends = time.Hour, map[int64]time.Time{11: now.Add(-2 * time.Hour)}
	for id := range int64(10) {
		g.Ends[1+id] = now.Add(-time.Minute)
	}
	if end := g.Report(now).ExpectedEnd; !end.Equal(now.Add(36 * time.Minute)) {
		t.Errorf("at that pace it ends at %s", end)
	}
	// Without runtimes the chain of most tasks is critical, and no end is known.
	g.Runtimes, g.Ends = nil, nil
	if r := g.Report(now); stepNames(r.CriticalPath) != "a c later" || r.ExpectedEnd != nil {
		t.Errorf("critical path %s, end %v", stepNames(r.CriticalPath), r.ExpectedEnd)
	}
	done := graph("a x completed", "b x failed a")
	if r := done.Report(now); len(r.CriticalPath) != 0 || r.ExpectedEnd != nil || r.Ended != 2 {
		t.Errorf("a graph that has ended: %+v", r)
	}
}

// If nothing of a graph runs, the end is unknown while no worker has started the sent task. The end doesn't move with
// the time. A running task counts from its start.
func TestExpectedEndOfSentTasks(t *testing.T) {
	g := graph("a load sent", "b load waiting a")
	g.PaceWindow, g.Runtimes = time.Hour, map[string]time.Duration{"load": 10 * time.Minute}
	since := now.Add(-4 * time.Minute)
	g.Tasks[0].Since = &since
	r := g.Report(now)
	if r.ExpectedEnd != nil || r.AwaitsWorker == nil || r.AwaitsWorker.Task != 1 || r.PathSeconds != 1200 {
		t.Errorf("nobody has begun a: %+v", r)
	}
	if text := r.Text(now, func(s string) string { return s }); !strings.Contains(text, "a (task 1, sent 4 min ago, not begun)") ||
		!strings.Contains(text, "Expected end: unknown, as no worker has begun a (task 1)") {
		t.Error(text)
	}
	g.Tasks[0].State = model.GraphRunning
	for _, c := range []struct{ after, end time.Duration }{{0, 16}, {3, 16}, {6, 16}, {8, 18}} { // in minutes; with nothing left of a, b follows at once
		at := now.Add(c.after * time.Minute)
		if r := g.Report(at); r.AwaitsWorker != nil || r.ExpectedEnd == nil || !r.ExpectedEnd.Equal(now.Add(c.end*time.Minute)) {
			t.Errorf("after %d minutes: the end is %v, %v", c.after, r.ExpectedEnd, r.AwaitsWorker)
		}
	}
	if text := g.Report(now).Text(now, func(s string) string { return s }); !strings.Contains(text, "a (task 1, running for 4 min)") {
		t.Error(text)
	}
	moving := graph("a load sent", "b load waiting a", "c load running")
	moving.PaceWindow, moving.Runtimes = g.PaceWindow, g.Runtimes
	if r := moving.Report(now); r.AwaitsWorker != nil || r.ExpectedEnd == nil {
		t.Errorf("another task runs: %+v", r)
	}
	moving.Tasks[2].State, moving.Ends = model.GraphCompleted, map[int64]time.Time{3: now.Add(-time.Minute)}
	if r := moving.Report(now); r.AwaitsWorker != nil || r.ExpectedEnd == nil {
		t.Errorf("another task has just ended: %+v", r)
	}
	moving.Ends[3] = now.Add(-2 * time.Hour)
	if r := moving.Report(now); r.AwaitsWorker == nil || r.ExpectedEnd != nil {
		t.Errorf("nothing has ended for an hour: %+v", r)
	}
}

// Without known runtimes, or with no more than a moment by the pace of the first ends, the end is unknown, and the text
// has the reason.
func TestUnknownEnd(t *testing.T) {
	g := graph("list list completed", "a load running list", "b load waiting a", "c check waiting b")
	g.PaceWindow, g.Ends = 100*time.Millisecond, map[int64]time.Time{1: now.Add(-time.Millisecond)}
	for name, runtimes := range map[string]map[string]time.Duration{"none known": nil, "a short one known": {"load": 50 * time.Millisecond}} {
		g.Runtimes = runtimes
		r := g.Report(now)
		text := r.Text(now, func(s string) string { return s })
		if r.ExpectedEnd != nil || !strings.Contains(text, "Expected end: unknown, as no runtime is known of ") || strings.Contains(text, "(in ") {
			t.Errorf("%s: %s", name, text)
		}
	}
	g.Runtimes = map[string]time.Duration{"load": 50 * time.Millisecond, "check": time.Second}
	if text := g.Report(now).Text(now, func(s string) string { return s }); !strings.Contains(text, "(in 1 s)") {
		t.Error(text)
	}
	late := graph("a load running")
	late.Runtimes, late.Tasks[0].Since = map[string]time.Duration{"load": time.Minute}, new(now.Add(-time.Hour))
	if text := late.Report(now).Text(now, func(s string) string { return s }); !strings.Contains(text, "Expected end: unknown, as its tasks have run for longer than their mean runtime") {
		t.Error(text)
	}
}

// A picture is drawn whole or not at all within a number of bytes.
func TestPictureWithin(t *testing.T) {
	d := graph("a load running", "b load waiting a", "c load waiting a b").Draw()
	whole := d.SVG(nil)
	if got, ok := d.SVGWithin(len(whole), nil); !ok || got != whole {
		t.Errorf("%v, %d bytes", ok, len(got))
	}
	for _, most := range []int{0, 500, len(whole) - 1} {
		if _, ok := d.SVGWithin(most, nil); ok {
			t.Errorf("%d of %d bytes are enough", most, len(whole))
		}
	}
}

// pathBefore goes backwards, each time to the dependency that ended last; for a graph that has ended, from its last
// task. Running tasks come before ended ones.
func TestPathBefore(t *testing.T) {
	g := graph(
		"list list completed",
		"other list completed",
		"a load completed list other",
		"b load failed list",
		"join check running a b:resolved join",
		"late check waiting join",
	)
	g.Ends = map[int64]time.Time{}
	for id, minutes := range map[int64]int{1: 5, 2: 6, 3: 20, 4: 10, 5: 3} { // join ran before, and is tried again
		g.Ends[id] = now.Add(time.Duration(minutes) * time.Minute)
	}
	r := g.Report(now.Add(time.Hour))
	if got := stepNames(r.PathBefore) + " | " + stepNames(r.CriticalPath); got != "other a | join late" {
		t.Error(got)
	}
	if got := stepNames(g.Ran()); got != "join a b other list" {
		t.Errorf("ran: %s", got)
	}
	done := graph("a x completed", "b x failed a", "c x completed a", "d x dependency b")
	done.Ends = map[int64]time.Time{1: now, 2: now.Add(2 * time.Minute), 3: now.Add(time.Minute)}
	if got := stepNames(done.Report(now).PathBefore); got != "a b" {
		t.Errorf("of a graph that has ended: %s", got)
	}
	if got := graph("a x waiting").Report(now).PathBefore; got == nil || len(got) != 0 {
		t.Errorf("of a graph that has not begun: %v", got)
	}
}

// A small graph is drawn task by task. A large one is drawn by type and level, with one arrow for each kind of
// dependency, on a bounded number of levels. Both pictures are well-formed.
func TestDraw(t *testing.T) {
	small := graph("a x completed", "b x failed a b", "c y waiting a b").Draw()
	want := []Arrow{{0, 1, graphs.OnCompleted, 1}, {0, 2, graphs.OnCompleted, 1}, {1, 1, graphs.OnCompleted, 1}, {1, 2, graphs.OnCompleted, 1}}
	if diff := cmp.Diff(want, small.Arrows); diff != "" || len(small.Boxes) != 3 || small.Levels != 3 {
		t.Errorf("%d boxes, %d levels, arrows:\n%s", len(small.Boxes), small.Levels, diff)
	}

	mixed := graph("a x completed", "b x failed a:failed", "c y waiting a b:resolved b:failed", "d y waiting a c:completed")
	mixed.Tasks[3].AnyResult = true
	conditions := mixed.Draw()
	want = []Arrow{
		{0, 1, graphs.OnFailed, 1}, {0, 2, graphs.OnCompleted, 1}, {0, 3, graphs.OnResolved, 1},
		{1, 2, graphs.OnFailed, 1}, {1, 2, graphs.OnResolved, 1}, {2, 3, graphs.OnCompleted, 1},
	}
	if diff := cmp.Diff(want, conditions.Arrows); diff != "" {
		t.Errorf("arrows with conditions:\n%s", diff)
	}
	if dot, svg := conditions.DOT(), conditions.SVG(nil); strings.Count(dot, `label="failed"`) != 2 || strings.Count(dot, `label="resolved"`) != 2 ||
		strings.Count(svg, ">failed</text>") != 2 || strings.Count(svg, ">resolved</text>") != 2 || strings.Contains(dot+svg, `label="completed"`) {
		t.Errorf("conditions are not shown:\n%s%s", dot, svg)
	}

	lines := []string{"first list completed"}
	names := ""
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("n%d load %s first", i, []string{"completed", "running"}[i%2]))
		names += fmt.Sprintf(" n%d", i)
	}
	wide := graph(append(lines, "last index waiting"+names)...).Draw()
	if diff := cmp.Diff([]Arrow{{0, 1, graphs.OnCompleted, 1000}, {1, 2, graphs.OnCompleted, 1000}}, wide.Arrows); diff != "" {
		t.Errorf("arrows:\n%s", diff)
	}
	if got := wide.Boxes[1]; got.Title != "load" || got.Subtitle != "1000 tasks" || got.states() != "500 running, 500 completed" {
		t.Errorf("box %+v", got)
	}

	lines = []string{"n0 load running"}
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("n%d load waiting n%d", i+1, i))
	}
	deep := graph(lines...).Draw()
	if deep.Levels != drawnLevels || len(deep.Boxes) != drawnLevels || len(deep.Arrows) != drawnLevels-1 {
		t.Errorf("%d levels, %d boxes, %d arrows", deep.Levels, len(deep.Boxes), len(deep.Arrows))
	}

	lines = nil
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("n%d load waiting", i))
		if i >= 30 {
			lines[i] += strings.TrimSuffix(names[:strings.Index(names, " n30")], " ")
		}
	}
	dense := graph(lines...).Draw()
	if diff := cmp.Diff([]Arrow{{0, 1, graphs.OnCompleted, 900}}, dense.Arrows); diff != "" {
		t.Errorf("few tasks with many dependencies are not drawn as one of each type; arrows:\n%s", diff)
	}

	hostile := graph("<&>\"\x01 x completed", "b x waiting <&>\"\x01").Draw()
	for _, d := range []Drawing{small, conditions, wide, deep, dense, hostile} {
		picture := xml.NewDecoder(strings.NewReader(d.SVG(func(b Box) string { return "/tasks/" + b.Title + "?a&b" })))
		for {
			if _, err := picture.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v:\n%s", err, d.SVG(func(b Box) string { return "/tasks/" + b.Title + "?a&b" }))
			}
		}
		if dot := d.DOT(); strings.Count(dot, " -> ") != len(d.Arrows) || strings.Count(dot, "fillcolor") != len(d.Boxes) {
			t.Errorf("DOT:\n%s", dot)
		}
	}
	if dot := hostile.DOT(); !strings.Contains(dot, `label="<&>\"`) {
		t.Errorf("a quote in a name ends it, in DOT:\n%s", dot)
	}
}
