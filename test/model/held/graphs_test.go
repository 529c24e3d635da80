package held

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/test/model/check"
	spec "swh-scheduler/test/model/graphs"
)

const graphTasks = 4 // as in the model

// graphsBench has the shared parts of sequences.
type graphsBench struct {
	store *db.Store

	longest, steps int
}

// graphsWorld is a sequence: the model's state and the database.
type graphsWorld struct {
	*graphsBench
	t     *rapid.T
	graph spec.Graph
	model check.Model[spec.State]
	state spec.State
	id    int64
	tasks [graphTasks]int64
	runs  [graphTasks]string
	now   time.Time
	trace []string
	taken int

	extension *extension // in progress, or nil
}

// extension is an extension with an open transaction.
type extension struct {
	goOn chan struct{}
	done chan struct{}
	err  error // once done
}

func (w *graphsWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nneeds %v, added %v, deadlines %v, retries %v\nafter %d steps:\n  %s", fmt.Sprintf(format, args...),
		w.graph.Needs, w.graph.Added, w.graph.Deadline, w.graph.Retries, w.taken, strings.Join(w.trace, "\n  "))
}

func (w *graphsWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fail("%v", err)
	}
}

func (w *graphsWorld) take(s check.Step[spec.State]) {
	w.state = s.Next
	w.trace = append(w.trace, s.Name)
	w.taken++
	w.steps++
	for _, p := range w.model.Always {
		if !p.Holds(w.state) {
			w.fail("broken: %s", p.Name)
		}
	}
}

// ofDrain reports whether a step is the drain's.
func ofDrain(s check.Step[spec.State]) bool {
	return strings.HasSuffix(s.Name, " is noted") || strings.HasSuffix(s.Name, " is spread") || strings.HasSuffix(s.Name, " is settled")
}

// task returns a task of the graph to submit, with its dependencies on existing tasks, or those of the same request.
func (w *graphsWorld) task(i int, places map[int]int) graphs.NewTask {
	task := graphs.NewTask{Name: fmt.Sprint(i), Type: "step", Retries: new(int64(0))}
	if w.graph.Retries[i] {
		task.Retries = new(int64(1))
	}
	if w.graph.Deadline[i] {
		task.Deadline = w.now.Add(time.Hour)
	}
	for d := range i {
		_, asked := places[d]
		if w.graph.Needs[i][d] != spec.No && (asked || w.tasks[d] != 0) {
			task.DependsOn = append(task.DependsOn, w.dependency(i, d, places))
		}
	}
	return task
}

func (w *graphsWorld) dependency(i, d int, places map[int]int) graphs.NewDependency {
	on := graphs.NewDependency{On: map[spec.Condition]graphs.Condition{spec.Success: graphs.OnCompleted, spec.Failure: graphs.OnFailed, spec.End: graphs.OnResolved}[w.graph.Needs[i][d]]}
	if place, asked := places[d]; asked {
		on.Place = place
	} else {
		on.Task = w.tasks[d]
	}
	return on
}

// request returns the tasks for which such is true, and their indexes.
func (w *graphsWorld) request(such func(i int) bool) (tasks []graphs.NewTask, places map[int]int) {
	places = make(map[int]int)
	for i := range graphTasks {
		if such(i) {
			tasks = append(tasks, w.task(i, places))
			places[i] = len(tasks) - 1
		}
	}
	return tasks, places
}

func (w *graphsWorld) stored(ids []int64, places map[int]int) {
	for i, place := range places {
		w.tasks[i] = ids[place]
	}
}

// do takes a step in the model and in the database.
func (w *graphsWorld) do(s check.Step[spec.State]) {
	ctx := context.Background()
	var i int
	is := func(format string) bool {
		n, err := fmt.Sscanf(s.Name, format, &i)
		return err == nil && n == 1 && s.Name == fmt.Sprintf(format, i)
	}
	switch {
	case is("%d runs"):
		w.runs[i] = fmt.Sprintf("run-%d-%d", w.tasks[i], w.taken)
		testenv.Exec(w.t, w.store.Pool(), `with sent as (update task set status = 'next_run_scheduled' where id = $1)
			insert into task_run (task, backend_id, scheduled) values ($1, $2, now())`, w.tasks[i], w.runs[i])
	case is("%d is completed"):
		w.end(i, model.RunEventful)
	case is("a run of %d fails"):
		w.end(i, model.RunFailed)
	case is("the deadline of %d is over"):
		w.now = w.now.Add(2 * time.Hour)
	case s.Name == "the graph is cancelled":
		w.must(w.store.CancelGraph(ctx, w.id, w.now))
	case s.Name == "a retry begins":
		_, err := w.store.RetryGraph(ctx, w.id, w.now)
		w.must(err)
	case is("%d is respawned"):
		testenv.Exec(w.t, w.store.Pool(), "update task set status = 'next_run_not_scheduled', next_run = now() where id = $1", w.tasks[i])
	case s.Name == "an extension begins":
		w.extend()
	case s.Name == "the extension is stored":
		w.cancelWaits()
		w.must(w.endExtension())
	}
	w.take(s)
	if s.Name == "the graph is cancelled" {
		w.drain() // a cancel of the program looks at the graph's tasks itself
	}
}

func (w *graphsWorld) end(i int, status model.RunStatus) {
	end := settle.Outcome{BackendID: w.runs[i], Received: time.Now(), End: &settle.End{Status: status}}
	w.must(settle.Store{Store: w.store}.ApplyOutcomes(context.Background(), []settle.Outcome{end}))
}

// extend begins an extension, and returns once its transaction is open, or has ended.
func (w *graphsWorld) extend() {
	tasks, places := w.request(func(i int) bool { return w.graph.Added[i] })
	e := graphs.Extension{Tasks: tasks}
	for i := range graphTasks {
		for d := range i {
			if w.graph.Needs[i][d] != spec.No && w.graph.Added[d] && !w.graph.Added[i] {
				e.Add = append(e.Add, graphs.MoreDependency{Task: w.tasks[i], On: w.dependency(i, d, places)})
			}
		}
	}
	x, now, open := &extension{goOn: make(chan struct{}), done: make(chan struct{})}, w.now, make(chan struct{}, 10)
	w.extension = x
	go func() {
		defer close(x.done)
		stored, err := w.store.ExtendGraph(context.Background(), w.id, graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) {
			open <- struct{}{}
			<-x.goOn
			return e, nil
		}, now)
		if x.err = err; err == nil {
			w.stored(stored.Tasks, places)
		}
	}()
	select {
	case <-open:
	case <-x.done:
	}
}

// endExtension lets an extension end.
func (w *graphsWorld) endExtension() error {
	x := w.extension
	w.extension = nil
	close(x.goOn)
	<-x.done
	return x.err
}

// cancelWaits fails unless a cancel waits for the extension in progress.
func (w *graphsWorld) cancelWaits() {
	if w.state.Left.Cancels == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := w.store.CancelGraph(ctx, w.id, w.now); !errors.Is(err, context.DeadlineExceeded) {
		w.fail("a graph is cancelled while an extension is under way: %v", err)
	}
}

// refused fails unless an extension of the graph is refused as in the model: it is cancelled, or a task that would
// get dependencies runs or has ended.
func (w *graphsWorld) refused() {
	if w.state.Left.Extensions == 0 || w.state.Extending || slices.ContainsFunc(w.model.From(w.state), func(s check.Step[spec.State]) bool { return s.Name == "an extension begins" }) {
		return
	}
	w.extend()
	if err := w.endExtension(); err == nil {
		w.fail("the graph was extended")
	}
}

// drain runs the drain to its end, in the model too, and compares.
func (w *graphsWorld) drain() {
	w.trace = append(w.trace, "-- the drain")
	for {
		steps := slices.DeleteFunc(w.model.From(w.state), func(s check.Step[spec.State]) bool { return !ofDrain(s) })
		if len(steps) == 0 {
			break
		}
		w.take(steps[0])
	}
	for began := time.Now(); ; {
		if time.Since(began) > 20*time.Second {
			w.fail("the drain doesn't end")
		}
		round, err := w.store.AdvanceGraphs(context.Background(), w.now)
		w.must(err)
		if !round.More && !round.Waits {
			break
		}
	}
	tasks, err := w.store.GraphTasks(context.Background(), w.id)
	w.must(err)
	states := make(map[int64]model.GraphState)
	for _, t := range tasks {
		states[t.ID] = t.State
		if t.State.WithWorkers() {
			states[t.ID] = model.GraphRunning
		}
	}
	want := map[spec.Status]model.GraphState{
		spec.Waiting: model.GraphWaiting, spec.Ready: model.GraphReady, spec.Running: model.GraphRunning, spec.Completed: model.GraphCompleted,
		spec.Failed: model.GraphFailed, spec.ByDependency: model.GraphByDependency, spec.Skipped: model.GraphSkipped,
		spec.ByDeadline: model.GraphByDeadline, spec.ByCancel: model.GraphCancelled,
	}
	w.refused()
	for i, t := range w.state.Tasks {
		if got := states[w.tasks[i]]; got != want[t.Status] {
			w.fail("task %d is %q, want %q\n%+v", i, got, want[t.Status], t)
		}
	}
}

func (b *graphsBench) sequence(t *rapid.T) {
	w := &graphsWorld{graphsBench: b, t: t, now: time.Now()}
	defer func() {
		if w.extension != nil {
			_ = w.endExtension()
		}
	}()
	for i := 1; i < graphTasks; i++ {
		for d := range i {
			w.graph.Needs[i][d] = rapid.SampledFrom([]spec.Condition{spec.No, spec.Success, spec.Failure, spec.End}).Draw(t, fmt.Sprintf("%d needs %d", i, d))
		}
		w.graph.Added[i] = rapid.IntRange(0, 3).Draw(t, "added") == 3
		w.graph.Retries[i] = rapid.IntRange(0, 3).Draw(t, "retries") == 3
	}
	if dated := rapid.IntRange(0, graphTasks-1).Draw(t, "dated"); dated > 0 {
		w.graph.Deadline[dated] = !w.graph.Added[dated]
	}
	upTo := func(n int, what string) uint8 { return uint8(rapid.IntRange(0, n).Draw(t, what)) }
	left := spec.Faults{
		Failures: upTo(3, "failures"), Deadlines: 1, Cancels: upTo(1, "cancels"), Extensions: 1, Retries: upTo(2, "retries of all"), Respawns: upTo(2, "respawns"),
	}
	if !slices.Contains(w.graph.Added[:], true) {
		left.Extensions = 0
	}
	w.model = spec.Model(w.graph, left, spec.Rules{})
	w.state = w.model.Initial
	tasks, places := w.request(func(i int) bool { return !w.graph.Added[i] })
	submitted, err := b.store.SubmitGraph(context.Background(), graphs.NewGraph{Tasks: tasks}, w.now)
	w.must(err)
	w.id = submitted.ID
	w.stored(submitted.Tasks, places)
	w.drain()
	for _, choice := range choices(t) {
		steps := slices.DeleteFunc(w.model.From(w.state), ofDrain)
		if n := choice % uint32(len(steps)+1+len(steps)/2); int(n) < len(steps) {
			w.do(steps[n])
		} else if !w.state.Extending {
			w.drain()
		}
	}
	b.longest = max(b.longest, w.taken)
}

// Random graphs on PostgreSQL equal the model of graphs after each drain. Their tasks end, fail and are retried,
// deadlines pass, and an operator cancels, extends, retries and respawns. TestGraphsAgainstModel of sql/graphs has
// concurrent operators and drains.
func TestGraphs(t *testing.T) {
	b := &graphsBench{store: testenv.Open(t, testenv.Database(t))}
	testenv.Exec(t, b.store.Pool(), `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor)
		values ('step', '', 'swh.test.Step', '1 day', '1 day', '1 day', 1)`)
	began, sequences := time.Now(), 0
	checks(t, 100, 5000, func(t *rapid.T) { sequences++; b.sequence(t) })
	t.Logf("%d sequences, %d steps of the model, the longest %d, %s", sequences, b.steps, b.longest, time.Since(began).Round(time.Second))
}
