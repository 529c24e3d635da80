package explain

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// A runner of tasks with priority is none of the others, nor the other way round.
func TestRunnersAreToldApart(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name) values ('t', '', 't');
		insert into task (type, arguments, next_run, status, policy, priority) values ('t', '{}', now(), 'next_run_not_scheduled', 'oneshot', null), ('t', '{}', now(), 'next_run_not_scheduled', 'oneshot', 'high')`)
	explained := func(task int64) Explanation {
		t.Helper()
		x := Gatherer{Store: store, Config: new(config.Config), Log: slog.New(slog.DiscardHandler), Now: store.Now(), NoBroker: errors.New("no broker")}
		e, err := x.Task(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	const normal, urgent = "No start-runner of this program is connected", "No start-runner --with-priority of this program is connected"
	says(t, explained(1), []string{normal}, nil)
	says(t, explained(2), []string{urgent}, nil)
	if err := testenv.OpenLocal(t, dsn, postgres.Options{Command: "start-runner --with-priority"}).CheckVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	says(t, explained(1), []string{normal}, nil)
	says(t, explained(2), nil, []string{urgent})
	if err := testenv.OpenLocal(t, dsn, postgres.Options{Command: "start-runner"}).CheckVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	says(t, explained(1), nil, []string{normal})
}

// If each runner that runs is restricted to other task types, the explanation has its options.
func TestRunnersOfOtherTypes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name) values ('load-git', '', 't');
		insert into task (type, arguments, next_run, status, policy) values ('load-git', '{}', now(), 'next_run_not_scheduled', 'oneshot')`)
	if err := testenv.OpenLocal(t, dsn, postgres.Options{Command: "start-runner"}).CheckVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	explained := func() Explanation {
		t.Helper()
		x := Gatherer{Store: store, Config: new(config.Config), Log: slog.New(slog.DiscardHandler), Now: store.Now(), NoBroker: errors.New("no broker")}
		e, err := x.Task(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	report := func(name string, only *model.Restriction) {
		t.Helper()
		if err := store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: name, State: db.DaemonState{Restriction: only}}); err != nil {
			t.Fatal(err)
		}
	}
	const others, taken = "No connected start-runner sends its type: each is restricted to others (--task-type list-gitea; --task-type-pattern load-h).", "It is taken by a pass of start-runner"
	says(t, explained(), []string{taken}, []string{"restricted"})
	report("start-runner", &model.Restriction{TaskTypes: []string{"list-gitea"}})
	report("start-runner", &model.Restriction{Patterns: []string{"load-h"}})
	report("start-runner --with-priority", nil)
	says(t, explained(), []string{others}, []string{taken})
	report("start-runner", &model.Restriction{Patterns: []string{"load-"}})
	says(t, explained(), []string{taken}, []string{"restricted"})
	testenv.Exec(t, store.Pool(), "update scheduler_go.daemons set seen = now() - interval '6 minutes' where state -> 'restriction' ->> 'patterns' = '[\"load-\"]'")
	says(t, explained(), []string{others}, nil)
	report("start-runner", nil)
	says(t, explained(), []string{taken}, []string{"restricted"})
}
