package runner_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// wokenRunner is a runner that is woken, by default with a period that is too long to wait for.
type wokenRunner struct {
	t      *testing.T
	store  *db.Store
	passes atomic.Int64 // that have read the ready types
	claims chan int64   // the pass of each
	stop   func()
}

// passCounter counts passes.
type passCounter struct {
	runner.Store
	passes *atomic.Int64
}

func (c passCounter) ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool, from map[string]time.Time) ([]string, error) {
	defer c.passes.Add(1)
	return c.Store.ReadyTaskTypes(ctx, now, withPriority, from)
}

const tooLong = 24 * time.Hour // its first pause after a claim too

func startWokenRunner(t *testing.T, withPriority bool, period time.Duration) *wokenRunner {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t))
	broker := parsed.Broker(t, testenv.RabbitMQ(t).URL)
	inspector := celery.NewQueueInspector(broker, "", celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	w := &wokenRunner{t: t, store: store, claims: make(chan int64, 100)}
	w.exec("insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load')")
	o := runner.Options{
		Store: passCounter{store, &w.passes}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
		Slots:  dispatch.NewSlots(store, inspector, func() { w.claims <- w.passes.Load() }),
		Period: period, WithPriority: withPriority, Listen: store.Listener(db.GraphChannel, db.PriorityChannel),
	}
	var r *runner.Runner
	if !withPriority {
		o.Listen = store.ListenerBeside(db.PriorityChannel, func() { r.PriorityCameIn() }, db.GraphChannel)
	}
	r = runner.New(o)
	w.stop = testenv.Run(t, r.Run)
	return w
}

func (w *wokenRunner) exec(statement string, args ...any) {
	w.t.Helper()
	testenv.Exec(w.t, w.store.Pool(), statement, args...)
}

// claimed waits until the runner has claimed something, and returns the number of its pass.
func (w *wokenRunner) claimed() (pass int64) {
	w.t.Helper()
	select {
	case pass = <-w.claims:
	case <-time.After(testenv.Patience):
		w.t.Fatal("the task waits for the period")
	}
	return pass
}

// A task with priority is claimed when it is written, before the period ends, also after the listening connection
// was lost. A task without priority doesn't wake the runner.
func TestPriorityRunnerIsWokenByTheDatabase(t *testing.T) {
	t.Parallel()
	w := startWokenRunner(t, true, tooLong)
	insert := func(priority string) {
		w.exec("insert into task (type, arguments, next_run, current_interval, status, priority) values ('load-git', '{}', now(), '1 day', 'next_run_not_scheduled', " + priority + ")")
	}
	insert("'low'")
	w.claimed()
	insert("null")
	insert("'high'")
	w.claimed()
	w.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen%'")
	insert("'normal'")
	w.claimed()
	w.stop()
	if len(w.claims) > 0 {
		t.Error("a task without priority was claimed")
	}
}

// Both kinds of runner claim tasks of a graph when it is submitted, and when their dependencies end.
func TestRunnersAreWokenByGraphs(t *testing.T) {
	t.Parallel()
	for _, withPriority := range []bool{false, true} {
		w := startWokenRunner(t, withPriority, tooLong)
		task := graphs.NewTask{Type: "load-git", Name: "first"}
		if withPriority {
			task.Priority = "high"
		}
		second := task
		second.Name, second.DependsOn = "second", []graphs.NewDependency{{}}
		g, err := w.store.SubmitGraph(t.Context(), graphs.NewGraph{Tasks: []graphs.NewTask{task, second}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		w.claimed()
		w.exec("update task set status = 'completed' where id = $1", g.Tasks[0])
		w.claimed()
		w.stop()
	}
}

// Claims of tasks without priority are small at the start and while tasks with priority come in, so that those don't wait
// for large ones.
func TestClaimsAreSmallBesidePriority(t *testing.T) {
	t.Parallel()
	w := startWokenRunner(t, false, tooLong)
	sent := func(want int) {
		t.Helper()
		w.claimed()
		var got int
		if err := w.store.Pool().QueryRow(t.Context(), "select count(*) from task where status = 'next_run_scheduled'").Scan(&got); err != nil || got != want {
			t.Errorf("%d tasks are claimed, want %d; %v", got, want, err)
		}
	}
	const insert = "insert into task (type, arguments, next_run, current_interval, status, priority) select 'load-git', '{}', now(), '1 day', 'next_run_not_scheduled', "
	insertMany := func() {
		w.exec(insert + "null from generate_series(1, 140)")
		w.exec("notify " + db.GraphChannel)
	}
	insertMany()
	w.claimed() // 50 at the start
	sent(140)
	w.exec(insert + "'high'")
	insertMany()
	w.claimed()
	w.claimed()
	sent(280)
	w.stop()
	if len(w.claims) > 0 {
		t.Error("there was a sixth claim")
	}
}

// A task that follows others doesn't wait for the whole period, although nothing wakes the runner.
func TestTaskAfterOthersIsFoundSoon(t *testing.T) {
	t.Parallel()
	w := startWokenRunner(t, false, testenv.Patience+time.Minute) // the first pause is 11 seconds
	const insert = "insert into task (type, arguments, next_run, current_interval, status) values ('load-git', '{}', now(), '1 day', 'next_run_not_scheduled')"
	w.exec(insert)
	w.exec("notify " + db.GraphChannel)
	pass := w.claimed()
	testenv.Becomes(t, "whether a pass has found nothing", true, func() bool { return w.passes.Load() > pass })
	w.exec(insert)
	w.claimed()
	w.stop()
}
