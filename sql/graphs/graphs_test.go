package graphs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// submitGraph stores a graph whose tasks are named by their indexes.
func submitGraph(t testing.TB, store *db.Store, tasks ...graphs.NewTask) graphs.Submitted {
	t.Helper()
	for i := range tasks {
		tasks[i].Name, tasks[i].Type = fmt.Sprint(i), "step"
	}
	submitted, err := store.SubmitGraph(t.Context(), graphs.NewGraph{Tasks: tasks}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	return submitted
}

// on returns a task that depends on others by index.
func on(places ...int) (t graphs.NewTask) {
	for _, place := range places {
		t.DependsOn = append(t.DependsOn, graphs.NewDependency{Place: place})
	}
	return t
}

// existing returns dependencies on existing tasks.
func existing(ids ...int64) (on []graphs.NewDependency) {
	for _, id := range ids {
		on = append(on, graphs.NewDependency{Task: id})
	}
	return on
}

func drain(t testing.TB, store *db.Store) {
	t.Helper()
	if err := drainGraphs(t.Context(), store, at(1)); err != nil {
		t.Fatal(err)
	}
}

// checkGraph fails unless the tasks of a graph have the states, in order.
func checkGraph(t testing.TB, store *db.Store, graph int64, want ...model.GraphState) {
	t.Helper()
	tasks, err := store.GraphTasks(t.Context(), graph)
	if err != nil {
		t.Fatal(err)
	}
	var got []model.GraphState
	for _, task := range tasks {
		got = append(got, task.State)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("tasks of graph %d stand at %v, want %v", graph, got, want)
	}
}

func setStatus(t testing.TB, store *db.Store, status model.TaskStatus, ids ...int64) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "update task set status = $1 where id = any($2)", status, ids)
}

const (
	waiting    = model.GraphWaiting
	ready      = model.GraphReady
	completed  = model.GraphCompleted
	byFailed   = model.GraphByDependency
	ownFailure = model.GraphFailed
)

// A retry of a graph gives each task its submitted number of retries; the default is its type's.
func TestRetryGivesRetriesBack(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	testenv.Exec(t, store.Pool(), "update task_type set num_retries = 2")
	own, none, types := on(), on(), on()
	own.Retries, none.Retries = new(int64(5)), new(int64(0))
	g := submitGraph(t, store, own, none, types)
	left := func() []int64 {
		return testenv.Column[int64](t, store.Pool(), "select retries_left from task where id = any($1) order by id", g.Tasks)
	}
	want := []int64{5, 0, 2}
	if got := left(); !slices.Equal(got, want) {
		t.Fatalf("submitted: %v, want %v", got, want)
	}
	if err := store.CancelGraph(t.Context(), g.ID, at(0)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	testenv.Exec(t, store.Pool(), "update task set retries_left = 0") // as after failures
	if _, err := store.RetryGraph(t.Context(), g.ID, at(0)); err != nil {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("retried: %v, want %v", got, want)
	}
}

// A task that was with a worker while its graph was cancelled and taken up again is retried as often as submitted.
func TestRetryGivesRetriesBackToSentTasks(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	task := on()
	task.Retries = new(int64(3))
	g := submitGraph(t, store, task, graphs.NewTask(on()))
	setStatus(t, store, model.TaskScheduled, g.Tasks[0])
	if err := store.CancelGraph(t.Context(), g.ID, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	if _, err := store.RetryGraph(t.Context(), g.ID, at(2)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	if n := testenv.Value[int](t, store.Pool(), "select retries_left from task where id = $1", g.Tasks[0]); n != 3 {
		t.Errorf("%d retries are left, want 3", n)
	}
}

// Two transactions that end the last two dependencies don't see each other. With either one watched, and
// any order of the commits and the drain, the dependent is released after the last commit and not before.
func TestLastReleaseIsNotLost(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		for _, drains := range []string{"", "a", "b", "c", "ab", "bc", "ac", "abc"} {
			t.Run(fmt.Sprint(order, drains), func(t *testing.T) {
				g := submitGraph(t, store, on(), on(), on(0, 1))
				at := func(point string) {
					for _, p := range drains {
						if string(p) == point {
							drain1(t, store)
						}
					}
				}
				var txs [2]pgx.Tx
				for i := range txs {
					tx := testenv.Begin(t, store.Pool())
					testenv.Exec(t, tx, "update task set status = 'completed' where id = $1", g.Tasks[i])
					txs[i] = tx
					if i == 0 {
						at("a")
					}
				}
				at("b")
				for n, i := range order {
					checkGraph(t, store, g.ID, state(n > 0 && order[0] == 0), state(n > 0 && order[0] == 1), waiting)
					if err := txs[i].Commit(t.Context()); err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						at("c")
					}
				}
				drain(t, store)
				checkGraph(t, store, g.ID, completed, completed, ready)
			})
		}
	}
}

// state is the state of a task without dependencies: ended, or not.
func state(ended bool) model.GraphState {
	if ended {
		return completed
	}
	return ready
}

// drain1 runs some rounds of the drain, which must not wait for a lock.
func drain1(t *testing.T, store *db.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if _, err := store.AdvanceGraphs(ctx, at(1)); err != nil {
			t.Fatal(err)
		}
	}
}

// A submission and the concurrent end of a dependency wait for each other, one way or the other. Either way
// the dependent is released.
func TestSubmitWhileADependencyEnds(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	first := submitGraph(t, store, on(), on())
	for i, status := range []model.TaskStatus{model.TaskCompleted, model.TaskDisabled} {
		tx := testenv.Begin(t, store.Pool())
		testenv.Exec(t, tx, "update task set status = $1 where id = $2", status, first.Tasks[i])
		submitted := make(chan graphs.Submitted, 1)
		go func() {
			g, err := store.SubmitGraph(t.Context(), graphs.NewGraph{Tasks: []graphs.NewTask{
				{Name: "needs", Type: "step", DependsOn: existing(first.Tasks[i])},
				{Name: "follows", Type: "step", DependsOn: existing(first.Tasks[i]), AnyResult: true},
			}}, at(0))
			if err != nil {
				t.Error(err)
			}
			submitted <- g
		}()
		testenv.Becomes(t, "it waits for the lock", true, func() bool {
			drain1(t, store)
			return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") > 0
		})
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := <-submitted
		drain(t, store)
		want := []model.GraphState{ready, byFailed}[i]
		checkGraph(t, store, g.ID, want, ready)
	}
}

// Ends of tasks without dependents, and of unwatched dependencies, are not recorded. The end of a watched
// one is, once.
func TestOnlyWatchedEndsAreNoted(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(), on(), on(1, 2))
	noted := func() int {
		t.Helper()
		return testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_changes")
	}
	setStatus(t, store, model.TaskScheduled, g.Tasks[:3]...)
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	setStatus(t, store, model.TaskCompleted, g.Tasks[1])
	if n := noted(); n != 0 {
		t.Errorf("%d changes are noted", n)
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[2])
	if n := noted(); n != 1 {
		t.Errorf("%d changes are noted, want 1", n)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, ownFailure, completed, completed, ready)
	if n := noted() + testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_checks"); n != 0 {
		t.Errorf("%d changes and checks are left", n)
	}
}

// One round releases a bounded number of tasks, for any number of dependents. It passes on failures, and
// takes them back, in bounded steps.
func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	const n, chain = 1200, 200
	tasks := []graphs.NewTask{on()}
	for range n {
		tasks = append(tasks, on(0))
	}
	for i := range chain { // behind the last of them
		tasks = append(tasks, on(n+i))
	}
	g := submitGraph(t, store, tasks...)
	rounds := func(want graphs.Round) {
		t.Helper()
		var total graphs.Round
		for range 100 {
			round, err := store.AdvanceGraphs(t.Context(), at(1))
			if err != nil {
				t.Fatal(err)
			}
			if round.Released > 1000 || round.Failed > 1000 {
				t.Errorf("one round: %+v", round)
			}
			total.Released, total.Failed = total.Released+round.Released, total.Failed+round.Failed
			if !round.More {
				break
			}
		}
		if total != want {
			t.Errorf("rounds came to %+v, want %+v", total, want)
		}
	}
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	rounds(graphs.Round{Failed: n + chain})
	testenv.Exec(t, store.Pool(), "update task set status = 'next_run_not_scheduled', next_run = now() where id = $1", g.Tasks[0])
	rounds(graphs.Round{})
	if again := testenv.Value[int](t, store.Pool(), "select count(*) from task where next_run = scheduler_go.never() and status = 'next_run_not_scheduled'"); again != n+chain {
		t.Errorf("%d tasks wait again, want %d", again, n+chain)
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[0])
	rounds(graphs.Round{Released: n})
	setStatus(t, store, model.TaskCompleted, g.Tasks[n])
	rounds(graphs.Round{Released: 1})
}

// A look for deadlines that are over reads no waiting tasks without one.
func TestLooksForDeadlinesAreCheap(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	const n = 3000
	tasks := []graphs.NewTask{on()}
	for range n {
		tasks = append(tasks, on(0))
	}
	submitGraph(t, store, tasks...)
	testenv.Exec(t, store.Pool(), "analyze scheduler_go.graph_tasks")
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var read int
	if _, err = tx.Exec(t.Context(), "select scheduler_go.check_graph_deadlines(1000, now())"); err == nil {
		err = tx.QueryRow(t.Context(), "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where relid = 'scheduler_go.graph_tasks'::regclass").Scan(&read)
	}
	if err != nil || read > 0 {
		t.Errorf("%d of %d waiting tasks without a deadline were read (%v)", read, n, err)
	}
}

// Whether a task that can't run is skipped or failed follows its dependencies, even if that changes while
// it can never run. So does the state of its dependents.
func TestWhyATaskCannotRunIsKeptUp(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	handler := on(0, 1)
	handler.DependsOn[0].On = graphs.OnFailed
	g := submitGraph(t, store, on(), on(), handler, on(2))
	setStatus(t, store, model.TaskCompleted, g.Tasks[0])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, ready, waiting, waiting)
	setStatus(t, store, model.TaskDisabled, g.Tasks[1])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, ownFailure, byFailed, byFailed)
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[1])
	setStatus(t, store, model.TaskCompleted, g.Tasks[1])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, completed, model.GraphSkipped, model.GraphSkipped)

	// A task skipped because of two dependencies fails if either of them fails later.
	first, both := on(0), on(1, 2)
	first.DependsOn[0].On, both.DependsOn[1].On = graphs.OnFailed, graphs.OnFailed
	g = submitGraph(t, store, on(), first, on(), both, on())
	setStatus(t, store, model.TaskCompleted, g.Tasks[0], g.Tasks[2])
	setStatus(t, store, model.TaskDisabled, g.Tasks[4])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, model.GraphSkipped, completed, model.GraphSkipped, ownFailure)
	_, err := store.ExtendGraph(t.Context(), g.ID, graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) {
		return graphs.Extension{Add: []graphs.MoreDependency{{Task: g.Tasks[1], On: existing(g.Tasks[4])[0]}}}, nil
	}, at(1))
	if err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, completed, byFailed, completed, byFailed, ownFailure)
}

// Unmet and failed dependencies are listed. A deleted task counts with its last state. After all tasks of a
// graph are deleted, no row of the graph is left.
func TestDeletedTasks(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	ctx := t.Context()
	g := submitGraph(t, store, on(), on(), on(), on(0, 1), on(2))
	outside := submitGraph(t, store, graphs.NewTask{DependsOn: existing(g.Tasks[:2]...)})
	drain(t, store)
	unmet := func(task int64) string {
		t.Helper()
		all, err := store.UnmetDependencies(ctx, task, 10)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for _, d := range all {
			text += fmt.Sprintf("%s/%d %s %t;", d.Name, d.Graph, d.Status, d.Broken)
		}
		return text
	}
	if got, want := unmet(outside.Tasks[0]), fmt.Sprintf("0/%d next_run_not_scheduled false;1/%[1]d next_run_not_scheduled false;", g.ID); got != want {
		t.Errorf("unmet: %s, want %s", got, want)
	}
	// As the Python scheduler's archiver does it.
	remove := func(places ...int) {
		t.Helper()
		var ids []int64
		for _, p := range places {
			ids = append(ids, g.Tasks[p])
		}
		if err := store.DeleteArchived(ctx, ids, nil); err != nil {
			t.Fatal(err)
		}
		drain(t, store)
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[0])
	remove(0)
	checkGraph(t, store, g.ID, completed, ready, ready, waiting, waiting)
	remove(2) // it had not ended, and now never completes
	checkGraph(t, store, g.ID, completed, ready, ownFailure, waiting, byFailed)
	if got, want := unmet(g.Tasks[4]), fmt.Sprintf("2/%d deleted true;", g.ID); got != want {
		t.Errorf("unmet: %s, want %s", got, want)
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[1])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, completed, ownFailure, ready, byFailed)
	checkGraph(t, store, outside.ID, ready)

	// A graph stays while it has tasks, or other tasks depend on it.
	mend := func(want int) {
		t.Helper()
		mendGraphs(t, store)
		if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graphs"); n != want {
			t.Errorf("%d graphs are kept, want %d", n, want)
		}
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[3])
	remove(1, 3)
	mend(2)
	remove(4)
	mend(2)
	if err := store.DeleteArchived(ctx, outside.Tasks, nil); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	mend(0)
	if n := testenv.Value[int](t, store.Pool(), `select (select count(*) from scheduler_go.graph_tasks) + (select count(*) from scheduler_go.graph_edges)
		+ (select count(*) from scheduler_go.graph_gone)`); n != 0 {
		t.Errorf("%d rows are left of graphs that are gone", n)
	}
}

// mendGraphs runs the maintenance of graphs as if it were long overdue.
func mendGraphs(t *testing.T, store *db.Store) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
	if err := store.MendGraphs(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}

// An end while triggers are off is not recorded; MendGraphs releases the dependents. A truncated table
// leaves no waiting tasks.
func TestMendGraphs(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(0), on(1))
	testenv.Exec(t, store.Pool(), "set session_replication_role = replica; update task set status = 'completed' where id = "+fmt.Sprint(g.Tasks[0])+"; reset session_replication_role")
	drain(t, store)
	checkGraph(t, store, g.ID, completed, waiting, waiting)
	mendGraphs(t, store)
	drain(t, store)
	checkGraph(t, store, g.ID, completed, ready, waiting)
	testenv.Exec(t, store.Pool(), "truncate task cascade")
	mendGraphs(t, store)
	drain(t, store)
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_tasks"); n != 0 {
		t.Errorf("%d tasks of graphs are kept of an empty table", n)
	}
}

// The maintenance of graphs reads a bounded part at a time, and continues in any process.
func TestGraphsAreMendedInSteps(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	testenv.Exec(t, store.Pool(), `set session_replication_role = replica;
		insert into task (id, type, arguments, next_run, status, policy) select n * 10000, 'step', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 5) n;
		insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies, watch) select n * 10000, 1, n, true, 1, 7 from generate_series(1, 5) n;
		insert into scheduler_go.graph_edges select n * 10000, 7 from generate_series(1, 5) n;
		reset session_replication_role`)
	for calls := 1; testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_checks") < 5; calls++ {
		other := testenv.OpenLocal(t, store.Pool().Config().ConnString())
		if err := other.MendGraphs(t.Context(), time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_checks"); n != calls {
			t.Fatalf("%d tasks were found in %d calls", n, calls)
		}
	}
	drain(t, store)
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from task where next_run < scheduler_go.never()"); n != 5 {
		t.Errorf("%d tasks are released, want 5", n)
	}
}

// A sent task counts as running once a worker has begun its last run. Earlier, ended runs don't count.
func TestSentTasksRunOnceAWorkerHasBegunThem(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on())
	task := g.Tasks[0]
	check := func(state model.GraphState, since *time.Time) {
		t.Helper()
		checkGraph(t, store, g.ID, state)
		tasks, err := store.GraphTasks(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(since, tasks[0].Since); diff != "" {
			t.Errorf("%s since: %s", state, diff)
		}
	}
	check(ready, nil)
	testenv.Exec(t, store.Pool(), "insert into task_run (task, scheduled, started, ended, status) values ($1, $2, $2, $3, 'failed')", task, at(1), at(2))
	setStatus(t, store, model.TaskScheduled, task)
	testenv.Exec(t, store.Pool(), "insert into task_run (task, scheduled, status) values ($1, $2, 'scheduled')", task, at(3))
	check(model.GraphSent, new(at(3)))
	summary, err := store.Graph(t.Context(), g.ID)
	if err != nil || summary.Sent != 1 || summary.Running != 0 || summary.NeverRun != 0 || summary.Open() != 1 {
		t.Errorf("%+v, %v", summary, err)
	}
	testenv.Exec(t, store.Pool(), "update task_run set started = $2, status = 'started' where task = $1 and ended is null", task, at(4))
	check(model.GraphRunning, new(at(4)))
	if summary, err = store.Graph(t.Context(), g.ID); err != nil || summary.Sent != 0 || summary.Running != 1 {
		t.Errorf("%+v, %v", summary, err)
	}
}

// Sent tasks of a cancelled graph are not retried; unsent ones never run. Deadlines apply to waiting tasks.
func TestCancelAndDeadline(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	retries := int64(3)
	g := submitGraph(t, store, graphs.NewTask{Retries: &retries}, on(), on(0))
	setStatus(t, store, model.TaskScheduled, g.Tasks[0])
	if err := store.CancelGraph(t.Context(), g.ID, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, model.GraphSent, model.GraphCancelled, model.GraphCancelled)
	if n := testenv.Value[int](t, store.Pool(), "select retries_left from task where id = $1", g.Tasks[0]); n != 0 {
		t.Errorf("the task that was sent has %d retries left", n)
	}
	if err := store.CancelGraph(t.Context(), g.ID, at(5)); err != nil {
		t.Fatal(err)
	}
	if cancelled := testenv.Value[time.Time](t, store.Pool(), "select cancelled from scheduler_go.graphs where id = $1", g.ID); !cancelled.Equal(at(1)) {
		t.Errorf("cancelled twice, it is cancelled since %s, want %s", cancelled, at(1))
	}
	if err := store.CancelGraph(t.Context(), g.ID+99, at(1)); !errors.Is(err, model.ErrUnknownGraph) {
		t.Errorf("cancelling a graph that is not there: %v", err)
	}
	if _, err := store.RetryGraph(t.Context(), g.ID+99, at(1)); !errors.Is(err, model.ErrUnknownGraph) {
		t.Errorf("retrying a graph that is not there: %v", err)
	}
	if _, err := store.RetryGraph(t.Context(), g.ID, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, model.GraphSent, ready, waiting)

	dated := on(0)
	dated.Deadline = at(1)
	g = submitGraph(t, store, on(), dated, on(1))
	if err := drainGraphs(t.Context(), store, at(0)); err != nil {
		t.Fatal(err)
	}
	checkGraph(t, store, g.ID, ready, waiting, waiting)
	drain(t, store)
	checkGraph(t, store, g.ID, ready, model.GraphByDeadline, byFailed)
	if _, err := store.RetryGraph(t.Context(), g.ID, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, ready, waiting, waiting)

	// A task that missed its deadline doesn't change, even if its dependency is open again.
	g = submitGraph(t, store, on(), dated)
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	if err := drainGraphs(t.Context(), store, at(0)); err != nil {
		t.Fatal(err)
	}
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
	drain(t, store)
	checkGraph(t, store, g.ID, ready, byFailed)
	if _, err := store.RetryGraph(t.Context(), g.ID, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, ready, waiting)
}

// Neither the drain nor a submission makes a listener wait long. While others hold tasks' rows, the drain
// does what it can and reports that more is left.
func TestDrainPassesByWhatIsLocked(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(0), on(0))
	setStatus(t, store, model.TaskCompleted, g.Tasks[0])
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "select from task where id = $1 for update", g.Tasks[1])
	drain1(t, store)
	checkGraph(t, store, g.ID, completed, waiting, ready)
	if round, err := store.AdvanceGraphs(t.Context(), at(1)); err != nil || !round.Waits || round.More {
		t.Errorf("%+v, %v", round, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, completed, ready, ready)
}

// Of two failures on a locked task, one still counts after the other is taken back.
func TestFailuresOfALockedTask(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(), on(), on(0, 1, 2))
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testenv.Exec(t, tx, "select from task where id = $1 for update", g.Tasks[3])
	setStatus(t, store, model.TaskDisabled, g.Tasks[0], g.Tasks[1])
	drain1(t, store)
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[1])
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, ownFailure, ready, ready, byFailed)
}

// A task that depends on itself is skipped, too, if its last other dependency ends during its check.
func TestLastSkipIsNotLost(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	handler := on(0, 1, 2)
	handler.DependsOn[0].On = graphs.OnFailed
	g := submitGraph(t, store, on(), on(), handler)
	setStatus(t, store, model.TaskCompleted, g.Tasks[1])
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testenv.Exec(t, tx, "update task set status = 'completed' where id = $1", g.Tasks[0])
	drain1(t, store)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, completed, completed, model.GraphSkipped)
}

// An overdue task with a locked row doesn't keep the drain busy.
func TestOverdueAndLocked(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	dated := on(0)
	dated.Deadline = at(1)
	g := submitGraph(t, store, on(), dated)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "select from task where id = $1 for update", g.Tasks[1])
	drain1(t, store)
	if round, err := store.AdvanceGraphs(t.Context(), at(1)); err != nil || !round.Waits || round.More {
		t.Errorf("%+v, %v", round, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, ready, model.GraphByDeadline)
}

// at is an arbitrary time.
func at(second int) time.Time { return time.Date(2026, 5, 1, 12, 0, second, 0, time.UTC) }

func ended(id string, status model.RunStatus, second int) settle.Outcome {
	return settle.Outcome{BackendID: id, Received: at(second), End: &settle.End{Status: status}}
}
