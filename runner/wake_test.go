package runner_test

import (
	"log/slog"
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

// wokenRunner is a runner whose period is too long to wait for.
type wokenRunner struct {
	t      *testing.T
	store  *db.Store
	claims chan struct{}
	stop   func()
}

func startWokenRunner(t *testing.T, withPriority bool) *wokenRunner {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t))
	broker := parsed.Broker(t, testenv.RabbitMQ(t).URL)
	inspector := celery.NewQueueInspector(broker, "", celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	w := &wokenRunner{t: t, store: store, claims: make(chan struct{}, 100)}
	w.exec("insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load')")
	o := runner.Options{
		Store: store, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
		Slots:  dispatch.NewSlots(store, inspector, func() { w.claims <- struct{}{} }),
		Period: time.Hour, WithPriority: withPriority, Listen: store.Listener(db.GraphChannel, db.PriorityChannel),
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

// claimed waits until the runner has claimed something.
func (w *wokenRunner) claimed() {
	w.t.Helper()
	select {
	case <-w.claims:
	case <-time.After(5 * time.Minute):
		w.t.Fatal("the task waits for the period")
	}
}

// A task with priority is claimed when it is written, before the period ends, also after the listening connection
// was lost. A task without priority doesn't wake the runner.
func TestPriorityRunnerIsWokenByTheDatabase(t *testing.T) {
	t.Parallel()
	w := startWokenRunner(t, true)
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
		w := startWokenRunner(t, withPriority)
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

// Claims of tasks without priority are small while tasks with priority come in, so that those don't wait for large ones.
func TestClaimsAreSmallBesidePriority(t *testing.T) {
	t.Parallel()
	w := startWokenRunner(t, false)
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
		w.exec(insert + "null from generate_series(1, 250)")
		w.exec("notify " + db.GraphChannel)
	}
	insertMany()
	sent(250)
	w.exec(insert + "'high'")
	insertMany()
	w.claimed()
	w.claimed()
	sent(500)
	w.stop()
	if len(w.claims) > 0 {
		t.Error("there was a fourth claim")
	}
}
