package graphs_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// modelTask is a task of a graph in memory, with the states of model.GraphState; ready and running are one
// state.
type modelTask struct {
	id        int64
	graph     int
	deps      []modelDependency
	anyResult bool
	deadline  time.Time
	state     model.GraphState
	deleted   bool
	released  int
}

// modelDependency is a dependency by the task's index in the world; on itself, its own index.
type modelDependency struct {
	place int
	on    graphs.Condition
}

// modelGraphs is the specification of graphs, without optimisations or concurrency.
type modelGraphs struct {
	tasks     []*modelTask
	cancelled map[int]bool
	now       time.Time
}

// settle applies the rules until nothing changes any more.
func (m *modelGraphs) settle() {
	for changed := true; changed; {
		changed = false
		for place, t := range m.tasks {
			if next := m.next(place, t); next != t.state {
				if next == model.GraphReady {
					t.released++
				}
				t.state, changed = next, true
			}
		}
	}
}

func (m *modelGraphs) next(place int, t *modelTask) model.GraphState {
	switch {
	case t.deleted || t.state != model.GraphWaiting && t.state != model.GraphByDependency && t.state != model.GraphSkipped && t.state != model.GraphReady:
		return t.state
	case m.cancelled[t.graph] && t.state.Open():
		return model.GraphCancelled
	case m.cancelled[t.graph] || t.state == model.GraphReady:
		return t.state
	}
	byItself, unmet, failed, skipped := false, false, false, false
	for _, d := range t.deps {
		on := d.on
		if on == "" && !t.anyResult {
			on = graphs.OnCompleted
		}
		switch state := m.tasks[d.place].state; {
		case d.place == place:
			byItself = true
		case state.Open():
			unmet = true
		case on == graphs.OnCompleted && state != model.GraphCompleted && state != model.GraphSkipped:
			failed = true
		case on == graphs.OnCompleted && state == model.GraphSkipped, on == graphs.OnFailed && (state == model.GraphCompleted || state == model.GraphSkipped):
			skipped = true
		}
	}
	overdue := !t.deadline.IsZero() && !t.deadline.After(m.now)
	switch {
	case overdue && t.state == model.GraphWaiting:
		return model.GraphByDeadline
	case overdue: // it missed its deadline
		return t.state
	case failed:
		return model.GraphByDependency
	case skipped && !unmet:
		return model.GraphSkipped
	case unmet || byItself:
		return model.GraphWaiting
	}
	return model.GraphReady
}

// those returns the indexes of tasks that pass.
func (m *modelGraphs) those(pass func(*modelTask) bool) []int {
	var places []int
	for place, t := range m.tasks {
		if !t.deleted && pass(t) {
			places = append(places, place)
		}
	}
	return places
}

// graphWorld is a database with the model beside it.
type graphWorld struct {
	modelGraphs
	store  *db.Store
	graphs []int64
	runs   int
}

func graphStore(t testing.TB) *db.Store {
	t.Helper()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor)
		values ('step', '', 'swh.test.Step', '1 day', '1 day', '1 day', 1)`)
	return store
}

// advanceGraphs drains until no change is left.
func drainGraphs(ctx context.Context, store *db.Store, now time.Time) error {
	for {
		round, err := store.AdvanceGraphs(ctx, now)
		if err != nil || !round.More && !round.Waits {
			return err
		}
	}
}

// submit stores a random graph; its tasks depend on each other and on existing tasks of graphs.
func (w *graphWorld) submit(t *rapid.T) func(context.Context) error {
	number := len(w.graphs)
	w.graphs = append(w.graphs, 0)
	first := len(w.tasks)
	candidates := w.those(func(*modelTask) bool { return true })
	n := rapid.IntRange(1, 12).Draw(t, "tasks")
	var g graphs.NewGraph
	var added []*modelTask
	for i := range n {
		task := graphs.NewTask{Name: fmt.Sprint(i), Type: "step", AnyResult: rapid.IntRange(0, 3).Draw(t, "any") == 0}
		m := &modelTask{graph: number, anyResult: task.AnyResult, state: model.GraphWaiting}
		depend := func(task *graphs.NewTask, m *modelTask, place int) {
			if slices.ContainsFunc(m.deps, func(d modelDependency) bool { return d.place == place }) {
				return
			}
			d := modelDependency{place: place}
			if place != first+i {
				d.on = rapid.SampledFrom([]graphs.Condition{"", "", graphs.OnCompleted, graphs.OnResolved, graphs.OnFailed}).Draw(t, "condition")
			}
			m.deps = append(m.deps, d)
			if place < first {
				task.DependsOn = append(task.DependsOn, graphs.NewDependency{Task: w.tasks[place].id, On: d.on})
			} else {
				task.DependsOn = append(task.DependsOn, graphs.NewDependency{Place: place - first, On: d.on})
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "dependencies") {
			if i > 0 {
				depend(&task, m, first+rapid.IntRange(0, i-1).Draw(t, "on"))
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "self") == 0 {
			depend(&task, m, first+i)
		}
		if len(candidates) > 0 && rapid.IntRange(0, 3).Draw(t, "outside") == 0 {
			depend(&task, m, rapid.SampledFrom(candidates).Draw(t, "on outside"))
		}
		if len(m.deps) > 0 && rapid.IntRange(0, 5).Draw(t, "dated") == 0 {
			task.Deadline = w.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "hours")) * time.Hour)
			m.deadline = task.Deadline
		}
		g.Tasks, added = append(g.Tasks, task), append(added, m)
	}
	w.tasks = append(w.tasks, added...)
	return func(ctx context.Context) error {
		submitted, err := w.store.SubmitGraph(ctx, g, w.now)
		if err != nil {
			return err
		}
		w.graphs[number] = submitted.ID
		for i, id := range submitted.Tasks {
			added[i].id = id
		}
		return nil
	}
}

// end ends some ready tasks, a run each, in batches of several listeners. One may be the Python
// scheduler's.
func (w *graphWorld) end(t *rapid.T) []func(context.Context) error {
	ready := w.those(func(m *modelTask) bool { return m.state == model.GraphReady })
	if len(ready) == 0 {
		return nil
	}
	ready = rapid.Permutation(ready).Draw(t, "order")[:rapid.IntRange(1, len(ready)).Draw(t, "how many")]
	batches := make([][]settle.Outcome, rapid.IntRange(1, 4).Draw(t, "listeners"))
	var theirs []settle.Outcome
	for _, place := range ready {
		m := w.tasks[place]
		w.runs++
		id := fmt.Sprintf("run-%d-%d", m.id, w.runs)
		mustExecRapid(t, w.store, `with sent as (update task set status = 'next_run_scheduled' where id = $1)
			insert into task_run (task, backend_id, scheduled) values ($1, $2, now())`, m.id, id)
		outcome := ended(id, model.RunEventful, 1)
		m.state = model.GraphCompleted
		if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			outcome, m.state = ended(id, model.RunFailed, 1), model.GraphFailed
		}
		if b := rapid.IntRange(-1, len(batches)-1).Draw(t, "heard by"); b < 0 {
			theirs = append(theirs, outcome)
		} else {
			batches[b] = append(batches[b], outcome)
		}
	}
	acts := []func(context.Context) error{func(ctx context.Context) error {
		for _, o := range theirs {
			if _, err := w.store.Pool().Exec(ctx, "select swh_scheduler_end_task_run($1, $2::task_run_status)", o.BackendID, o.End.Status); err != nil {
				return err
			}
		}
		return nil
	}}
	for _, b := range batches {
		acts = append(acts, func(ctx context.Context) error { return (settle.Store{Store: w.store}).ApplyOutcomes(ctx, b) })
	}
	return acts
}

func mustExecRapid(t *rapid.T, store *db.Store, query string, args ...any) {
	t.Helper()
	if _, err := store.Pool().Exec(context.Background(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// byHand does one random action of an operator.
func (w *graphWorld) byHand(t *rapid.T) []func(context.Context) error {
	one := func(what string, pass func(*modelTask) bool) *modelTask {
		places := w.those(pass)
		if len(places) == 0 {
			return nil
		}
		return w.tasks[rapid.SampledFrom(places).Draw(t, what)]
	}
	exec := func(query string, args ...any) []func(context.Context) error {
		return []func(context.Context) error{func(ctx context.Context) error {
			_, err := w.store.Pool().Exec(ctx, query, args...)
			return err
		}}
	}
	switch rapid.SampledFrom([]string{"respawn", "respawn", "release", "disable", "cancel", "retry", "wait", "delete", "extend", "extend"}).Draw(t, "act") {
	case "respawn":
		if m := one("respawn", func(m *modelTask) bool {
			return !m.state.Open() && m.state != model.GraphCompleted && !w.cancelled[m.graph]
		}); m != nil {
			m.state = model.GraphReady
			return exec("update task set status = 'next_run_not_scheduled', next_run = now() where id = $1", m.id)
		}
	case "release":
		if m := one("release", func(m *modelTask) bool { return m.state == model.GraphWaiting }); m != nil {
			m.state = model.GraphReady
			m.released++
			return []func(context.Context) error{func(ctx context.Context) error {
				released, err := w.store.ReleaseTask(ctx, m.id, w.now)
				if err == nil && !released {
					err = fmt.Errorf("task %d was not waiting", m.id)
				}
				return err
			}}
		}
	case "disable":
		if m := one("disable", func(m *modelTask) bool { return m.state.Open() }); m != nil {
			m.state = model.GraphFailed
			return exec("update task set status = 'disabled' where id = $1", m.id)
		}
	case "cancel":
		number := rapid.IntRange(0, len(w.graphs)-1).Draw(t, "graph")
		w.cancelled[number] = true
		return []func(context.Context) error{func(ctx context.Context) error {
			return w.store.CancelGraph(ctx, w.graphs[number], w.now)
		}}
	case "retry":
		number := rapid.IntRange(0, len(w.graphs)-1).Draw(t, "graph")
		delete(w.cancelled, number)
		for _, m := range w.tasks {
			if m.graph == number && !m.deleted && !m.state.Open() && m.state != model.GraphCompleted {
				if !m.deadline.After(w.now) {
					m.deadline = time.Time{}
				}
				m.state = model.GraphWaiting
			}
		}
		return []func(context.Context) error{func(ctx context.Context) error {
			_, err := w.store.RetryGraph(ctx, w.graphs[number], w.now)
			return err
		}}
	case "extend":
		if m := one("extend", func(m *modelTask) bool {
			return !w.cancelled[m.graph] && (m.state == model.GraphWaiting || m.state == model.GraphByDependency || m.state == model.GraphSkipped)
		}); m != nil {
			return []func(context.Context) error{w.extend(t, m)}
		}
	case "wait":
		w.now = w.now.Add(time.Hour)
	case "delete":
		if m := one("delete", func(m *modelTask) bool { return !m.state.Open() }); m != nil {
			m.deleted = true
			return exec("with runs as (delete from task_run where task = $1) delete from task where id = $1", m.id)
		}
	}
	return nil
}

// extend gives a task another dependency, on a new task that may have one itself, and removes one.
func (w *graphWorld) extend(t *rapid.T, m *modelTask) func(context.Context) error {
	condition := func() graphs.Condition {
		return rapid.SampledFrom([]graphs.Condition{"", graphs.OnCompleted, graphs.OnResolved, graphs.OnFailed}).Draw(t, "condition")
	}
	added := &modelTask{graph: m.graph, state: model.GraphWaiting}
	task := graphs.NewTask{Name: fmt.Sprintf("more %d", len(w.tasks)), Type: "step"}
	var e graphs.Extension
	if len(m.deps) > 0 && rapid.Bool().Draw(t, "remove") {
		i := rapid.IntRange(0, len(m.deps)-1).Draw(t, "removed")
		e.Remove = []graphs.Edge{{Task: m.id, DependsOn: w.tasks[m.deps[i].place].id}}
		m.deps = slices.Delete(m.deps, i, i+1)
	}
	if rapid.Bool().Draw(t, "add") {
		// Only earlier tasks than m, to avoid circles.
		below := w.those(func(d *modelTask) bool { return d.graph == m.graph && len(d.deps) == 0 && d != m })
		if len(below) > 0 && rapid.Bool().Draw(t, "below") {
			d := modelDependency{rapid.SampledFrom(below).Draw(t, "on"), condition()}
			added.deps = []modelDependency{d}
			task.DependsOn = []graphs.NewDependency{{Task: w.tasks[d.place].id, On: d.on}}
		}
		on := condition()
		e.Tasks, e.Add = []graphs.NewTask{task}, []graphs.MoreDependency{{Task: m.id, On: graphs.NewDependency{On: on}}}
		m.deps = append(m.deps, modelDependency{len(w.tasks), on})
		w.tasks = append(w.tasks, added)
	}
	return func(ctx context.Context) error {
		stored, err := w.store.ExtendGraph(ctx, w.graphs[m.graph], graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) { return e, nil }, w.now)
		if err == nil && len(e.Tasks) > 0 {
			added.id = stored.Tasks[0]
		}
		return err
	}
}

// do runs all actions at once beside two drains with rounds of any size, one of which crashes now and then.
// It then drains the rest.
func (w *graphWorld) do(t *rapid.T, acts []func(context.Context) error) {
	ctx := context.Background()
	tasks := cmp.Or(rapid.IntRange(0, 5).Draw(t, "tasks a round"), math.MaxInt/2)
	w.store.NoteRound(2*tasks, context.DeadlineExceeded) // halves the next round
	done := make(chan struct{})
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "cut off"), 0))
	var drains, all errgroup.Group
	for i := range 2 {
		drains.Go(func() error {
			for n := 0; ; n++ {
				// One is often cut off in the middle of a round.
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if i == 1 && n%3 == 2 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(4000))*time.Microsecond)
				}
				_, err := w.store.AdvanceGraphs(ctx, w.now)
				cancel()
				if err != nil && ctx.Err() == nil {
					return err
				}
				select {
				case <-done:
					return nil
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	for _, act := range acts {
		all.Go(func() error { return act(ctx) })
	}
	err := all.Wait()
	close(done)
	if drainErr := drains.Wait(); err == nil {
		err = drainErr
	}
	if err == nil {
		err = drainGraphs(ctx, w.store, w.now)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.settle()
}

// compare fails unless each task is as in the model. It fails once with all differences: rapid reports only
// one failure that it can't repeat.
func (w *graphWorld) compare(t *rapid.T, onlyOnce bool) {
	ctx := context.Background()
	var wrong []string
	for number, graph := range w.graphs {
		tasks, err := w.store.GraphTasks(ctx, graph)
		if err != nil {
			t.Fatal(err)
		}
		states := map[int64]model.GraphState{}
		for _, task := range tasks {
			states[task.ID] = task.State
			if task.State.WithWorkers() {
				states[task.ID] = model.GraphReady
			}
		}
		for place, m := range w.tasks {
			if m.graph == number && states[m.id] != m.state {
				wrong = append(wrong, fmt.Sprintf("task %d (number %d, of graph %d, depends on %v, any result %t, deadline %s, deleted %t) is %s, want %s",
					m.id, place, number, m.deps, m.anyResult, m.deadline, m.deleted, states[m.id], m.state))
			}
		}
	}
	if onlyOnce {
		rows, _ := w.store.Pool().Query(ctx, "select task, count(*) from releases group by task")
		counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			Task  int64
			Count int
		}])
		if err != nil {
			t.Fatal(err)
		}
		released := map[int64]int{}
		for _, c := range counts {
			released[c.Task] = c.Count
		}
		for place, m := range w.tasks {
			if len(m.deps) > 0 && released[m.id] != m.released {
				wrong = append(wrong, fmt.Sprintf("task %d (number %d) was released %d times, want %d", m.id, place, released[m.id], m.released))
			}
		}
	}
	if len(wrong) > 0 {
		t.Fatal(strings.Join(wrong, "\n"))
	}
}

// Random graphs end in random orders at several listeners at once (ours and the Python scheduler's).
// Meanwhile other tasks depend on them, and they are cancelled, respawned, deleted or overdue. In the end
// they match a plain model. Without respawns, each task is released exactly once.
func TestGraphsAgainstModel(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	testenv.Exec(t, store.Pool(), `
		create table releases (task bigint);
		create function note_release() returns trigger language plpgsql as $$
		begin insert into releases values (new.id); return null; end $$;
		create trigger note_release after update of next_run on task for each row
		when (old.next_run = scheduler_go.never() and new.next_run <> scheduler_go.never()
			and new.status = 'next_run_not_scheduled') execute function note_release()`)
	seed.Check(t, func(t *rapid.T) {
		w := &graphWorld{store: store, modelGraphs: modelGraphs{cancelled: map[int]bool{}, now: at(0)}}
		byHand := rapid.Bool().Draw(t, "by hand")
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			var acts []func(context.Context) error
			if len(w.graphs) == 0 || len(w.graphs) < 4 && rapid.IntRange(0, 4).Draw(t, "submit") == 0 {
				acts = append(acts, w.submit(t))
			}
			if byHand && rapid.IntRange(0, 2).Draw(t, "hand") == 0 && len(acts) == 0 {
				acts = append(acts, w.byHand(t)...)
			} else {
				acts = append(acts, w.end(t)...)
			}
			w.do(t, acts)
			w.compare(t, !byHand)
		}
	})
}
