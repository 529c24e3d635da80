package graphs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// reportGraph stores a graph whose first task, the report, waits for the ends of all others and of one task
// of a later extension. All tasks are then cancelled.
func reportGraph(t *testing.T, store *db.Store, n int) (graph, report, late int64) {
	t.Helper()
	tasks := []graphs.NewTask{{AnyResult: true, DependsOn: []graphs.NewDependency{{Place: 0}}}}
	for range n {
		tasks = append(tasks, on())
	}
	g := submitGraph(t, store, tasks...)
	stored, err := store.ExtendGraph(t.Context(), g.ID, graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) {
		return graphs.Extension{
			Tasks:  []graphs.NewTask{{Name: "late", Type: "step"}},
			Add:    []graphs.MoreDependency{{Task: g.Tasks[0], On: graphs.NewDependency{Place: 0}}},
			Remove: []graphs.Edge{{Task: g.Tasks[0], DependsOn: g.Tasks[0]}},
		}, nil
	}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CancelGraph(t.Context(), g.ID, at(0)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	return g.ID, g.Tasks[0], stored.Tasks[0]
}

// beside drains until do returns.
func beside(t *testing.T, store *db.Store, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var drains errgroup.Group
	drains.Go(func() error {
		for ctx.Err() == nil {
			if _, err := store.AdvanceGraphs(t.Context(), at(1)); err != nil {
				return err
			}
		}
		return nil
	})
	do()
	stop()
	if err := drains.Wait(); err != nil {
		t.Fatal(err)
	}
}

func graphState(t *testing.T, store *db.Store, task int64) model.GraphState {
	t.Helper()
	place, err := store.GraphTask(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return place.State
}

// In a graph of any size, no task is checked until all are open again.
func TestRetryOpensAllBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	for round := range 3 {
		graph, report, late := reportGraph(t, store, 5000)
		beside(t, store, func() {
			if n, err := store.RetryGraph(t.Context(), graph, at(1)); err != nil || n != 5002 {
				t.Errorf("retried %d tasks, %v", n, err)
			}
		})
		drain(t, store)
		if r, l := graphState(t, store, report), graphState(t, store, late); r != waiting || l != ready {
			t.Errorf("round %d: the report is %s, and what it waits for is %s", round, r, l)
		}
	}
}

// If a process is killed during a retry, nothing has changed, and the next retry does it.
func TestRetryIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	graph, report, late := reportGraph(t, store, 2500)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "select from task where id = $1 for update", late)
	retried := make(chan error, 1)
	go func() {
		_, err := store.RetryGraph(t.Context(), graph, at(1))
		retried <- err
	}()
	testenv.Becomes(t, "the retry waits for the last task", 1, func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
	})
	testenv.Exec(t, store.Pool(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
	if err := <-retried; err == nil {
		t.Error("no error, though its session was killed")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	if r, l := graphState(t, store, report), graphState(t, store, late); r == ready || l != model.GraphCancelled {
		t.Errorf("after the kill, the report is %s, and what it waits for is %s", r, l)
	}
	if _, err := store.RetryGraph(t.Context(), graph, at(1)); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	if r, l := graphState(t, store, report), graphState(t, store, late); r != waiting || l != ready {
		t.Errorf("the report is %s, and what it waits for is %s", r, l)
	}
}

// chain stores a chain of n tasks, and a clean-up for the failure of its last one that also waits for other
// tasks.
func chain(t *testing.T, store *db.Store, n int, others ...int) (g graphs.Submitted, cleanUp int64) {
	t.Helper()
	tasks := []graphs.NewTask{on(), on()} // the second is in no chain
	tasks = append(tasks, on(0))
	for i := range n - 2 {
		tasks = append(tasks, on(i+2))
	}
	last := on(append([]int{len(tasks) - 1}, others...)...)
	last.DependsOn[0].On = graphs.OnFailed
	g = submitGraph(t, store, append(tasks, last)...)
	return g, g.Tasks[len(g.Tasks)-1]
}

// A failure is taken back along a whole chain before its clean-up runs. The failure may have reached the
// end of the chain, while the clean-up waited for another task that ends meanwhile, or it may not.
func TestFailuresAreTakenBackFirst(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	for _, n := range []int{3, 30, 1500} {
		g, cleanUp := chain(t, store, n, 1)
		setStatus(t, store, model.TaskDisabled, g.Tasks[0])
		drain(t, store)
		if s := graphState(t, store, g.Tasks[n]); s != byFailed {
			t.Fatalf("the end of the chain is %s", s)
		}
		setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
		setStatus(t, store, model.TaskCompleted, g.Tasks[1])
		drain(t, store)
		if s := graphState(t, store, cleanUp); s != waiting {
			t.Errorf("chain of %d: the clean-up is %s", n, s)
		}
		if left := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_states where graph = $1 and state = 'waiting'", g.ID); left != n {
			t.Errorf("chain of %d: %d tasks wait", n, left)
		}
		setStatus(t, store, model.TaskDisabled, g.Tasks[0])
		drain(t, store)
		if s := graphState(t, store, cleanUp); s != ready {
			t.Errorf("chain of %d: after another failure, the clean-up is %s", n, s)
		}
	}

	store.NoteRound(2*50, context.DeadlineExceeded)
	g, cleanUp := chain(t, store, 1000)
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	for testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_states where graph = $1 and state = 'dependency'", g.ID) == 0 {
		if _, err := store.AdvanceGraphs(t.Context(), at(1)); err != nil {
			t.Fatal(err)
		}
	}
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
	drain(t, store)
	if s := graphState(t, store, cleanUp); s != waiting {
		t.Errorf("a failure on its way: the clean-up is %s", s)
	}
	if left := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_states where graph = $1 and state = 'waiting'", g.ID); left != 1000 {
		t.Errorf("a failure on its way: %d tasks wait", left)
	}
}

// A task failed because of two dependencies, one of which failed because of the other. Its failure is taken
// back, whichever has the lower number.
func TestFailuresOfTwoAreTakenBack(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(0))
	extended, err := store.ExtendGraph(t.Context(), g.ID, graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) {
		return graphs.Extension{
			Tasks: []graphs.NewTask{{Name: "late", Type: "step", DependsOn: existing(g.Tasks[0])}},
			Add:   []graphs.MoreDependency{{Task: g.Tasks[1], On: graphs.NewDependency{Place: 0}}},
		}, nil
	}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	late := extended.Tasks[0]
	for range 2 {
		setStatus(t, store, model.TaskDisabled, g.Tasks[0])
		drain(t, store)
		if a, b := graphState(t, store, g.Tasks[1]), graphState(t, store, late); a != byFailed || b != byFailed {
			t.Errorf("after the failure: %s, %s", a, b)
		}
		setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
		drain(t, store)
		if a, b := graphState(t, store, g.Tasks[1]), graphState(t, store, late); a != waiting || b != waiting {
			t.Errorf("once it is open again: %s, %s", a, b)
		}
	}
}

// The same holds beside a runner at any point of its work.
func TestFailuresAreTakenBackBesideARunner(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	beside(t, store, func() {
		for round := range 10 {
			g, cleanUp := chain(t, store, 1000, 1)
			setStatus(t, store, model.TaskDisabled, g.Tasks[0])
			testenv.Becomes(t, "the failure spreads", true, func() bool {
				return graphState(t, store, g.Tasks[min(1000, 100*(round+1))]) == byFailed
			})
			setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
			setStatus(t, store, model.TaskCompleted, g.Tasks[1])
			testenv.Becomes(t, "all waits again", 1000, func() int {
				if s := graphState(t, store, cleanUp); s != waiting {
					t.Fatalf("round %d: the clean-up is %s", round, s)
				}
				return testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_states where graph = $1 and state = 'waiting'", g.ID)
			})
		}
	})
}

// A task that is opened while a round is about to decide counts in that round. Here a trigger with a wait
// stops the round at another task.
func TestTaskIsOpenAgainInTheMiddleOfARound(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	first := submitGraph(t, store, on(), on(0))
	g, cleanUp := chain(t, store, 3, 1)
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	drain(t, store)
	testenv.Exec(t, store.Pool(), fmt.Sprintf(`
		create function wait() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return null; end $$;
		create trigger wait after update on task for each row when (new.id = %d) execute function wait()`, first.Tasks[1]))
	setStatus(t, store, model.TaskCompleted, first.Tasks[0])
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_checks (task) values ($1), ($2)", first.Tasks[1], cleanUp)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "select pg_advisory_xact_lock(42)")
	drained := make(chan error, 1)
	go func() { drained <- drainGraphs(t.Context(), store, at(1)) }()
	testenv.Becomes(t, "the round waits", 1, func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'advisory'")
	})
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
	setStatus(t, store, model.TaskCompleted, g.Tasks[1])
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	checkGraph(t, store, first.ID, completed, ready)
	if s := graphState(t, store, cleanUp); s != waiting {
		t.Errorf("the clean-up is %s", s)
	}
}

// If a trigger of the operator's refuses to open a task again, the task is set aside, and the others are
// opened.
func TestRefusedTaskIsTakenBackLater(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on(), on(0), on(0), on(0), on(2))
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	drain(t, store)
	testenv.Exec(t, store.Pool(), fmt.Sprintf(`
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
		create trigger refuse before update on task for each row when (new.id = %d) execute function refuse()`, g.Tasks[1]))
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
	drain(t, store)
	checkGraph(t, store, g.ID, ready, byFailed, waiting, waiting, waiting)
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.set_aside_tasks"); n != 1 {
		t.Errorf("%d tasks are set aside, want 1", n)
	}
	setStatus(t, store, model.TaskCompleted, g.Tasks[0])
	drain(t, store)
	checkGraph(t, store, g.ID, completed, byFailed, ready, ready, waiting)
}

// While another transaction locks a task that has to be opened, no other decision is made, but only for a
// short time.
func TestTakingBackWaitsForLocks(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g, cleanUp := chain(t, store, 3, 1)
	setStatus(t, store, model.TaskDisabled, g.Tasks[0])
	drain(t, store)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "select from task where id = $1 for update", g.Tasks[2])
	other := submitGraph(t, store, on(), on(0))
	setStatus(t, store, model.TaskNotScheduled, g.Tasks[0])
	setStatus(t, store, model.TaskCompleted, g.Tasks[1], other.Tasks[0])
	drain1(t, store)
	if round, err := store.AdvanceGraphs(t.Context(), at(1)); err != nil || !round.Waits || round.More {
		t.Errorf("%+v, %v", round, err)
	}
	if s := graphState(t, store, cleanUp); s != waiting {
		t.Errorf("the clean-up is %s", s)
	}
	checkGraph(t, store, other.ID, completed, waiting)
	testenv.Exec(t, store.Pool(), "update scheduler_go.graph_changes set locked_since = now() - interval '1 minute' where locked_since is not null")
	drain1(t, store)
	checkGraph(t, store, other.ID, completed, ready)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	if s := graphState(t, store, g.Tasks[3]); s != waiting {
		t.Errorf("the end of the chain is %s", s)
	}
}

// If a graph is cancelled while its extension is stored, the extension's tasks are cancelled, too.
func TestCancelWaitsForAnExtension(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	g := submitGraph(t, store, on())
	cancelled := make(chan error, 1)
	stored, err := store.ExtendGraph(t.Context(), g.ID, graphs.Key{}, func([]graphs.Task) (graphs.Extension, error) {
		go func() { cancelled <- store.CancelGraph(t.Context(), g.ID, at(1)) }()
		for range 100 { // until it waits, or has ended
			if len(cancelled) > 0 || testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return graphs.Extension{Tasks: []graphs.NewTask{{Name: "late", Type: "step"}, {Name: "later", Type: "step", DependsOn: []graphs.NewDependency{{Place: 0}}}}}, nil
	}, at(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	drain(t, store)
	checkGraph(t, store, g.ID, model.GraphCancelled, model.GraphCancelled, model.GraphCancelled)
	if len(stored.Tasks) != 2 {
		t.Errorf("%+v", stored)
	}
}

// A command checks its own graph at once, beside a backlog of others.
func TestCancelBesideABacklog(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	tasks := []graphs.NewTask{on()}
	for range 60_000 {
		tasks = append(tasks, on(0))
	}
	backlog := submitGraph(t, store, tasks...)
	setStatus(t, store, model.TaskCompleted, backlog.Tasks[0])
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_checks (task) select unnest($1::bigint[])", backlog.Tasks[1:])
	for name, of := range map[string]struct {
		do   func(graph int64) error
		want model.GraphState
	}{
		"cancel": {func(graph int64) error { return taskgraph.Cancel(t.Context(), store, graph, time.Now()) }, model.GraphCancelled},
		"retry": {func(graph int64) error {
			_, err := taskgraph.Retry(t.Context(), store, graph, time.Now())
			return err
		}, ready},
		"extend": {func(graph int64) error {
			_, err := taskgraph.Extend(t.Context(), store, graph, []byte("tasks: [{name: late, type: step}]"), time.Now())
			return err
		}, ready},
	} {
		g := submitGraph(t, store, on())
		if name == "retry" {
			setStatus(t, store, model.TaskDisabled, g.Tasks[0])
		}
		began := time.Now()
		if err := of.do(g.ID); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if s := graphState(t, store, g.Tasks[0]); s != of.want || took > 10*time.Second {
			t.Errorf("%s: after %s, the task is %s, want %s", name, took, s, of.want)
		}
		if left := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graph_checks"); left < 30_000 {
			t.Errorf("%s: it did others' backlog: %d are left", name, left)
		}
	}
}
