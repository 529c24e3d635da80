package explain

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
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
		x := Gatherer{Store: store, Config: new(config.Config), Log: slog.New(slog.DiscardHandler), Now: store.Now(), Zone: time.UTC, NoBroker: errors.New("no broker")}
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
