package explain

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
)

// Of a task that ran often, only the last run is read, whatever workers wrote about the others.
func TestOnlyTheLastRunIsRead(t *testing.T) {
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		"insert into task (id, type, arguments, next_run, current_interval, status) values (1, 'load-git', '{}', now(), '1 day', 'next_run_not_scheduled')",
		`insert into task_run (task, scheduled, ended, status, metadata) select 1, now(), now(), case when n = 500 then 'failed' else 'eventful' end::task_run_status,
			jsonb_build_object('error', repeat('x', 100000)) from generate_series(1, 500) n`,
	)
	x := &Gatherer{Store: store, Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now()}
	if _, err := x.Task(t.Context(), 1); err != nil { // it opens connections
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e, err := x.Task(t.Context(), 1)
	runtime.ReadMemStats(&after)
	if err != nil || !strings.Contains(strings.Join(e.Reasons, " ")+e.Summary, "failed") {
		t.Errorf("%+v, %v; want that the last run failed", e, err)
	}
	if read := (after.TotalAlloc - before.TotalAlloc) >> 20; read > 10 {
		t.Errorf("%d MiB were allocated", read)
	}
}
