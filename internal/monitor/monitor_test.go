package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The figures are those of the database. Series disappear with their rows. Figures from scans of whole tables are
// counted once an hour.
func TestFigures(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, store.Pool(), statement)
	}
	for _, statement := range []string{
		`insert into scheduler_go.work (queue, task_id, task_name, args, kwargs, claimed, last_error)
			select 'q', gen_random_uuid(), 't', '[]', '{}', '2026-01-01T00:00Z'::timestamptz + n * interval '1 second', case when n = 1 then 'no' end from generate_series(0, 2) n`,
		`insert into task_type (type, description, backend_name) values ('list', '', 'swh.list')`,
		`insert into task (type, arguments, next_run, status, policy, priority) values
			('list', '{}', '2025-12-31T23:59Z', 'next_run_not_scheduled', 'oneshot', 'high'), ('list', '{}', '2025-12-31T23:00Z', 'next_run_not_scheduled', 'oneshot', null),
			('list', '{}', '2030-01-01', 'next_run_not_scheduled', 'oneshot', null), ('list', '{}', '2025-01-01', 'completed', 'oneshot', null)`,
		`insert into task_run (task, backend_id, scheduled, status) select id, 'a', '2025-12-30', 'scheduled' from task limit 1`,
		`insert into task_run (task, backend_id, scheduled, status) select id, 'b', '2025-12-31T20:00Z', 'started' from task limit 1`,
		`insert into listers (id, name, instance_name, current_state, updated) values
			('00000000-0000-0000-0000-000000000001', 'gitlab', 'a', '{}', now()), ('00000000-0000-0000-0000-000000000002', 'gitlab', 'b', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
			select '00000000-0000-0000-0000-000000000001', 'https://x/' || n, 'git', '{}', true, now(), case n when 1 then null when 2 then '2025-12-30'::timestamptz else '2025-01-01' end from generate_series(1, 4) n`,
		`insert into origin_visit_stats (url, visit_type, last_snapshot, last_successful) values ('https://x/4', 'git', '\x00', '2025-06-01')`,
		`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			select id, 'git', now(), 10, 9, 8, 7 from listers`,
		`insert into visit_scheduler_queue_position (visit_type, position) values ('git', extract(epoch from '2025-12-31T00:00Z'::timestamptz)::bigint)`,
	} {
		exec(statement)
	}
	if _, err := store.MaintainCandidates(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := New(store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	now := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	m.now = func() time.Time { return now }
	// count counts the figures from scans of whole tables, as the jobs do.
	count := func() {
		t.Helper()
		_, err := store.CountOrigins(t.Context(), time.Minute)
		_, err2 := store.CountRuns(t.Context(), now, time.Minute)
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
	}
	run := func() {
		t.Helper()
		if err := m.RunOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, g *prometheus.GaugeVec, value float64, labels ...string) {
		t.Helper()
		if got := testutil.ToFloat64(g.WithLabelValues(labels...)); got != value {
			t.Errorf("%s %v: %g, want %g", what, labels, got, value)
		}
	}
	count()
	run()
	want("outgoing", m.outgoing, 3, "q")
	want("oldest", m.outgoingAge, 60, "q")
	want("refused", m.outgoingRefused, 1, "q")
	want("ready", m.ready, 1, "list", "high")
	want("ready", m.ready, 1, "list", "")
	want("longest ready", m.readyAge, 120, "list", "high")
	want("longest ready", m.readyAge, 3660, "list", "")
	want("known", m.known, 20, "gitlab", "git")
	want("enabled", m.enabled, 18, "gitlab", "git")
	want("never visited", m.never, 16, "gitlab", "git")
	want("pending", m.pending, 14, "gitlab", "git")
	if age := testutil.ToFloat64(m.countsAge.WithLabelValues("gitlab")); age != 0 { // counted after the monitor's now
		t.Errorf("the counts are %g s old", age)
	}
	want("drift", m.drift, 24*3600+60, "git")
	want("pool", m.pools, 1, "git", "without_update")
	want("pool", m.pools, 2, "git", "never_loaded")
	want("pool", m.pools, 1, "git", "others")
	want("pool", m.pools, 0, "git", "lagging")
	if got := testutil.ToFloat64(m.unanswered); got != 1 {
		t.Errorf("%g runs unanswered", got)
	}

	want("rejected", m.rejected, 0, "event")
	want("rejected", m.rejected, 0, "record")
	if got := testutil.ToFloat64(m.changes); got != 0 {
		t.Errorf("%g changes of candidates, all are drained", got)
	}
	if got := testutil.ToFloat64(m.built); got != 1 {
		t.Errorf("candidates are built: %g", got)
	}

	exec("insert into origin_visit_stats (url, visit_type) select 'https://y/' || n, 'git' from generate_series(1, 7) n")
	exec("insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason) values (now(), '', '', '', '')")
	if got := testutil.ToFloat64(m.eventsAge); got != 0 {
		t.Errorf("events are known up to %g s ago, without an observed queue", got)
	}
	exec("insert into scheduler_go.event_queues values ('q', now() - interval '1 hour')")
	exec("delete from scheduler_go.work")
	exec("update task_run set status = 'lost'")
	now = now.Add(time.Minute)
	count()
	run()
	if n := testutil.CollectAndCount(m.outgoing); n != 0 {
		t.Errorf("%d queues of an empty outgoing", n)
	}
	want("rejected", m.rejected, 1, "event")
	if got := testutil.ToFloat64(m.eventsAge); got < 3600 || got > 3660 {
		t.Errorf("events are known up to %g s ago, want an hour", got)
	}
	if got := testutil.ToFloat64(m.changes); got != 7 {
		t.Errorf("%g changes of candidates, want 7", got)
	}
	if got := testutil.ToFloat64(m.unanswered); got != 1 {
		t.Error("whole tables are read every time")
	}
	exec("update scheduler_go.walks set began = began - interval '1 hour'")
	count()
	run()
	if got := testutil.ToFloat64(m.unanswered); got != 0 {
		t.Errorf("%g runs unanswered an hour later", got)
	}
}

// Active origins are those that changed between the last two listings of their lister. They are counted once for each
// listing, when the listing is complete.
func TestActiveOrigins(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, store.Pool(), statement)
	}
	keep := func() {
		t.Helper()
		if _, err := store.MaintainCandidates(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	exec(`insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at) values
		('00000000-0000-0000-0000-000000000001', 'gitlab', 'a', '{}', now(), null),
		('00000000-0000-0000-0000-000000000002', 'gitlab', 'b', '{}', now(), '2026-01-10'),
		('00000000-0000-0000-0000-000000000003', 'github', '', '{}', now(), '2026-01-10')`)
	// Origin n of each lister changed on day n; the fifth is disabled.
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select id, 'https://' || instance_name || '/' || n, 'git', '{}', n <> 5, now(), '2026-01-01'::timestamptz + (n - 1) * interval '1 day'
		from listers, generate_series(1, 31) n`)
	keep()
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	m := New(store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	m.now = func() time.Time { return now }
	// want counts and compares; a lister with a count below 0 has no series.
	want := func(what string, gitlab, github float64) {
		t.Helper()
		exec("update scheduler_go.walks set began = 'epoch'")
		if ended, err := store.CountOrigins(t.Context(), time.Minute); !ended || err != nil {
			t.Fatal(ended, err)
		}
		if err := m.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		listers := 0
		for lister, n := range map[string]float64{"gitlab": gitlab, "github": github} {
			if n < 0 {
				continue
			}
			listers++
			if got := testutil.ToFloat64(m.active.WithLabelValues(lister)); got != n {
				t.Errorf("%s: %s has %g active origins, want %g", what, lister, got, n)
			}
		}
		if n := testutil.CollectAndCount(m.active); n != listers {
			t.Errorf("%s: %d listers, want %d", what, n, listers)
		}
	}
	listed := func(lister int, day string) {
		t.Helper()
		exec(fmt.Sprintf(`update listers set updated = now(), last_listing_finished_at = '%s' where id = '00000000-0000-0000-0000-00000000000%d'`, day, lister))
	}
	want("one listing of each", -1, -1)
	listed(2, "2026-01-20 12:00")
	want("a second listing of one", 11, -1) // the 10th to the 20th
	listed(1, "2026-01-03 12:00")
	listed(1, "2026-01-06 12:00")
	want("two listings of another instance", 11+2, -1) // the 4th and the 6th
	listed(3, "2026-01-09")
	want("a date that goes back", 13, -1)
	listed(3, "2026-01-10 00:00")
	want("the same date again", 13, -1)

	exec("update listed_origins set last_update = '2026-01-21' where url = 'https://b/1'")
	listed(2, "2026-01-21 12:00")
	exec("insert into scheduler_go.candidate_changes select 'git', 'https://other/' || n from generate_series(1, 10000) n")
	want("a listing that candidates do not show yet", 13, -1)
	keep()
	want("one that they show", 2+2, -1)
	exec("update listed_origins set last_update = '2026-01-22' where url = 'https://b/1'")
	want("a change after it", 2+2, -1)
}

// emptyStore has no figures.
type emptyStore struct{}

func (emptyStore) Figures(context.Context, time.Time) (f db.Figures, err error) { return f, nil }

// unreachableStore has figures until away is set.
type unreachableStore struct{ away bool }

func (s *unreachableStore) Figures(context.Context, time.Time) (f db.Figures, err error) {
	if s.away {
		return f, errors.New("away")
	}
	return f, nil
}

// Old figures are not shown, as another daemon may have newer ones. Their age is shown, also before the first ones.
func TestOldFiguresAreNotShown(t *testing.T) {
	t.Parallel()
	store := &unreachableStore{away: true}
	m := New(store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	now := time.Now()
	m.now = func() time.Time { return now }
	run := func(after time.Duration, away bool, shown int) {
		t.Helper()
		now, store.away = now.Add(after), away
		if err := m.RunOnce(t.Context()); (err != nil) != away {
			t.Fatal(err)
		}
		if got := testutil.CollectAndCount(m.unanswered); got != shown {
			t.Errorf("%d figures, want %d", got, shown)
		}
	}
	run(10*time.Minute, true, 0)
	if got := m.age(); got < 10*time.Minute {
		t.Errorf("age %s before there are figures", got)
	}
	run(time.Second, false, 1)
	run(staleAfter, true, 1)
	run(time.Second, true, 0)
	run(time.Second, false, 1)
}

// Metrics may be scraped while figures are read. The race detector finds shared variables.
func TestScrapedWhileTaken(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := New(emptyStore{}, slog.New(slog.DiscardHandler), reg)
	now := time.Now()
	var clock sync.Mutex
	m.now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		now = now.Add(time.Second)
		return now
	}
	age := func() float64 {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "swh_scheduler_monitor_age_seconds" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no age")
		return 0
	}
	var taking sync.WaitGroup
	taking.Go(func() {
		for range 100 {
			if err := m.RunOnce(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		age()
	}
	taking.Wait()
	if got := age(); got < 1 {
		t.Errorf("age %g a second or more after the last figures", got)
	}
}

// A task with the ready time infinity stops no other figures. Rows that are set aside are counted.
func TestRowsThatFiguresSkip(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')",
		`insert into task (type, arguments, next_run, current_interval, status) values ('a', '{}', '-infinity', '1 day', 'next_run_not_scheduled')`,
		"insert into scheduler_go.set_aside_tasks (task, arguments, reason) values (1, '', 'x')",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	f, err := store.Figures(t.Context(), time.Now())
	if err != nil || len(f.Ready) != 1 || f.Ready[0].Oldest.Year() != 1970 || f.SetAside.Tasks != 1 || f.SetAside.Origins != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}
