package runner_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
	"swh-scheduler/sql"
)

// A task with priority is claimed when it is written, not when the period is
// over, also after the connection that hears of it was lost; one without
// priority doesn't wake the runner.
func TestPriorityRunnerIsWokenByTheDatabase(t *testing.T) {
	t.Parallel()
	store, err := sql.Open(t.Context(), testenv.Database(t), sql.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	exec := func(statement string) {
		t.Helper()
		if _, err := store.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load')")
	broker, err := celery.ParseBroker(testenv.RabbitMQ(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	inspector := celery.NewQueueInspector(broker, "", celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	claims := make(chan struct{}, 100)
	r := runner.New(runner.Options{
		Store: store, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
		Slots:  dispatch.NewSlots(store, inspector, func() { claims <- struct{}{} }),
		Period: time.Hour, WithPriority: true, Listen: store.ListenPriorityTasks,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	insert := func(priority string) {
		exec("insert into task (type, arguments, next_run, current_interval, status, priority) values ('load-git', '{}', now(), '1 day', 'next_run_not_scheduled', " + priority + ")")
	}
	claimed := func() {
		t.Helper()
		select {
		case <-claims:
		case <-time.After(30 * time.Second):
			t.Fatal("the task waits for the period")
		}
	}
	insert("'low'")
	claimed()
	insert("null")
	insert("'high'")
	claimed()
	exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen%'")
	insert("'normal'")
	claimed()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(claims) > 0 {
		t.Error("a task without priority was claimed")
	}
}
