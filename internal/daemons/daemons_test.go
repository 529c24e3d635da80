package daemons_test

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// options are those of a daemon on services of the test's own.
func options(t *testing.T, command string) process.Options {
	t.Helper()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	c := config.Default()
	c.Celery.TaskBroker, c.RabbitMQ.ManagementURL = config.Secret(mq.URL), config.Secret(mq.ManagementURL)
	return process.Options{
		Command: command, Version: "test", Config: c,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Level: new(slog.LevelVar), Metrics: prometheus.NewRegistry(),
		OpenStore: func(ctx context.Context) (*db.Store, error) {
			return db.Open(ctx, dsn, postgres.Options{Command: command})
		},
	}
}

// A daemon that sends refuses a setting of Celery's at once, while the database is away, too.
func TestRefusedBrokerWithoutADatabase(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, process.Options) error{
		"start-runner": func(ctx context.Context, o process.Options) error {
			r := daemons.Runner{Options: o, Period: time.Second}
			return r.Run(ctx)
		},
		"start-runner, once": func(ctx context.Context, o process.Options) error {
			r := daemons.Runner{Options: o}
			return r.Run(ctx)
		},
		"start-runner-first-visits": func(ctx context.Context, o process.Options) error {
			v := daemons.FirstVisits{Options: o, Period: time.Second}
			return v.Run(ctx)
		},
		"schedule-recurrent": func(ctx context.Context, o process.Options) error {
			r := daemons.Recurrent{Options: o}
			return r.Run(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Celery.TaskBroker = "redis://localhost"
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			err := run(ctx, process.Options{
				Command: name, Config: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Level: new(slog.LevelVar), Metrics: prometheus.NewRegistry(),
				OpenStore: func(ctx context.Context) (*db.Store, error) {
					return db.Open(ctx, "postgresql://127.0.0.1:1/none", postgres.Options{Command: "test"})
				},
			})
			if err == nil || !strings.Contains(err.Error(), "celery.task_broker") {
				t.Errorf("%v, want what is wrong with celery.task_broker", err)
			}
		})
	}
}

// A whole daemon runs in this process, without a command line, until its context ends.
func TestDaemonInProcess(t *testing.T) {
	t.Parallel()
	l := daemons.Listener{Options: options(t, "start-listener")}
	l.MetricsAddr = "127.0.0.1:0"
	testenv.Run(t, l.Run)
	testenv.Becomes(t, "metrics of the listener, which are registered once it runs", 1, func() int {
		n, err := testutil.GatherAndCount(l.Metrics, "swh_scheduler_listener_workers_online")
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}

// A runner that is to look once refuses a task type that is not there, and ends
// without one.
func TestRunnerOnceInProcess(t *testing.T) {
	t.Parallel()
	r := daemons.Runner{Options: options(t, "start-runner"), TaskTypes: []string{"nope"}}
	if err := r.Run(t.Context()); !errors.Is(err, model.UnknownTaskType("nope")) {
		t.Errorf("%v", err)
	}
	r = daemons.Runner{Options: options(t, "start-runner")}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// A daemon refuses lanes of a task type whose messages a route sends to an exchange: they would
// not get into the lanes' queues.
func TestLanesBesideAnExchangeAreRefused(t *testing.T) {
	t.Parallel()
	r := daemons.Runner{Options: options(t, "start-runner")}
	r.Config.Celery.Sending.Routes = []celery.Route{{Task: regexp.MustCompile("^swh.a$"), Queue: "q", Form: celery.Form{Exchange: "x", RoutingKey: "k"}}}
	r.Config.Lanes = map[string][]model.Lane{"load-a": {{Name: "all", Queue: "{backend_name}"}}}
	store, err := r.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.CreateTaskType(t.Context(), model.TaskType{Type: "load-a", BackendName: "swh.a"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the lanes of load-a can't work") {
		t.Error(err)
	}
}

// Any daemon drains the changes of candidates, so that they do not grow where no daemon
// schedules visits.
func TestAnyDaemonDrainsChanges(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(o process.Options) func(context.Context) error{
		"start-listener": func(o process.Options) func(context.Context) error { return (&daemons.Listener{Options: o}).Run },
		"rpc-serve": func(o process.Options) func(context.Context) error {
			return (&daemons.RPC{Options: o, Address: "127.0.0.1:0"}).Run
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, name)
			store, err := o.OpenStore(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			testenv.Exec(t, store.Pool(), "insert into origin_visit_stats (url, visit_type) select 'https://example.org/' || n, 'git' from generate_series(1, 1000) n")
			stop := testenv.Run(t, run(o))
			testenv.Becomes(t, "changes that are left", 0, func() int64 {
				n, err := store.CandidateBacklog(t.Context(), 1000)
				if err != nil {
					t.Fatal(err)
				}
				return n
			})
			// It tells that it runs, and when it stops that it doesn't.
			testenv.Becomes(t, "daemons that are seen", []string{name}, func() (names []string) {
				seen, err := store.Daemons(t.Context(), 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range seen {
					names = append(names, d.Name)
				}
				return names
			})
			stop()
			if seen, err := store.Daemons(t.Context(), 10); err != nil || len(seen) > 0 {
				t.Errorf("after its end: %+v %v", seen, err)
			}
		})
	}
}
