package runner_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
	"swh-scheduler/sql/migrate"
)

// Arguments that are sent, and those that are not: in these, the worker could not be told
// what to do.
var (
	sentArguments = []string{
		`{}`, `{"args": null, "kwargs": null}`, `{"args": {}, "kwargs": []}`, `{"args": [1], "kwargs": {"url": null}, "more": 1}`,
		`{"args": [], "kwargs": {"url": ["x"], "lister_name": {}}}`,
	}
	oddArguments = []string{
		`[]`, `null`, `"x"`, `1`, `{"args": {"a": 1}}`, `{"args": "x"}`, `{"args": 0}`, `{"kwargs": [1]}`, `{"kwargs": "x"}`, `{"kwargs": false}`,
	}
)

func (w *world) texts(t *testing.T, query string) []string {
	t.Helper()
	return testenv.Column[string](t, w.store.Pool(), query)
}

// For each fault of a task and each way to claim: the pass sets the faulty task aside with the reason and sends
// the others. Once mended, the task is sent.
func TestFaultyTasksStopNoClaim(t *testing.T) {
	t.Parallel()
	lanes := []model.Lane{
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 2 * time.Minute, Slots: 100, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 2 * time.Hour, Slots: 100, MinSlots: 1},
	}
	for name, way := range map[string]struct{ priority, shared, lanes bool }{
		"plain": {}, "priority": {priority: true}, "shares": {shared: true}, "lanes": {lanes: true},
		"priority, lanes": {priority: true, lanes: true}, "shares, lanes": {shared: true, lanes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWorld(t)
			w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.a', 100)")
			o := runner.Options{Shares: map[string]model.Shares{}, Lanes: map[string][]model.Lane{}, WithPriority: way.priority}
			if way.shared {
				o.Shares["load-git"] = model.Shares{By: "kwargs.owner", Default: 1, HalfLife: time.Hour}
				testenv.Migrate(t, w.dsn, migrate.Options{Shares: o.Shares})
			}
			if way.lanes {
				o.Lanes = map[string][]model.Lane{"load-git": lanes, "save_code_now:load-git": lanes}
			}
			priority := "null"
			if way.priority {
				priority = "'high'"
			}
			insert := `insert into task (type, arguments, next_run, current_interval, status, priority)
				select 'load-git', arguments::jsonb, $2::text::timestamptz, '1 day', 'next_run_not_scheduled', ` + priority + ` from unnest($1::text[]) arguments`
			w.exec(t, insert, oddArguments, "2000-01-01")
			w.exec(t, insert, sentArguments, "2020-01-01")
			w.exec(t, insert, sentArguments, "-infinity")
			// Longer than an index takes, also packed.
			long := `(select string_agg(md5(n::text), '') from generate_series(1, 1000) n)`
			w.exec(t, `insert into task (type, arguments, next_run, current_interval, status, priority)
				select 'load-git', jsonb_build_object('kwargs', jsonb_build_object(key, `+long+`)), '2000-01-01', '1 day', 'next_run_not_scheduled', `+priority+` from unnest(array['url', 'lister_name']) key`)
			sent := 2*len(sentArguments) + 2

			o.Store, o.Slots, o.Log, o.Reg = w.store, w.slots(t), slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry()
			r := runner.New(o)
			n, err := r.RunOnce(t.Context())
			if n != sent || err != nil {
				t.Errorf("%d tasks were claimed, want %d: %v", n, sent, err)
			}
			if got := w.texts(t, "select t.arguments::text from scheduler_go.work w join task_run r on r.backend_id = w.task_id::text join task t on t.id = r.task"); len(got) != sent {
				t.Errorf("%d messages, want %d", len(got), sent)
			}
			odd := w.texts(t, "select t.arguments::text from task t join scheduler_go.set_aside_tasks s on s.task = t.id where t.status = 'next_run_not_scheduled' and s.reason <> '' order by t.id")
			if diff := cmp.Diff(oddArguments, odd); diff != "" {
				t.Errorf("set aside (-want +got):\n%s", diff)
			}
			if n, err := r.RunOnce(t.Context()); n != 0 || err != nil {
				t.Errorf("the next pass claimed %d: %v", n, err)
			}
			w.exec(t, `update task set arguments = '{"args": [], "kwargs": {}}' where status = 'next_run_not_scheduled'`)
			if err := w.store.RetrySetAside(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := r.RunOnce(t.Context()); n != len(oddArguments) || err != nil {
				t.Errorf("%d of %d mended tasks were claimed: %v", n, len(oddArguments), err)
			}
		})
	}
}

// A faulty origin, or a visit type without a loader, delays neither its lister's other first visits nor their end.
func TestFaultyOriginsStopNoFirstVisits(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 100)")
	w.exec(t, `insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'lister', n::text, '{}', now() - interval '1 hour', now(), 'first' from generate_series(1, 2) n`)
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000001'::uuid, 'https://' || n, 'git', case n when 3 then '[]' else '{}' end::jsonb, true, now(), case n when 5 then 'infinity' end::timestamptz from generate_series(1, 10) n
		union all select '00000000-0000-0000-0000-000000000002'::uuid, 'https://other/' || type, type, '{}'::jsonb, true, now(), null from unnest(array['a-type-without-loader', 'git']) type`)
	f := runner.NewFirstVisits(runner.FirstVisitsOptions{Store: w.store, Slots: w.slots(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry()})
	n, err := f.RunOnce(t.Context())
	if n != 9 || err == nil || !strings.Contains(err.Error(), "a-type-without-loader") {
		t.Errorf("%d of 9 first visits were claimed: %v", n, err)
	}
	done := w.texts(t, "select instance_name from listers where first_visits_scheduled_at is not null")
	if !slices.Equal(done, []string{"1"}) {
		t.Errorf("the first visits of listers %v are done, want those of 1", done)
	}
}
