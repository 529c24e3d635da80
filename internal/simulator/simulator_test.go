package simulator

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// fill fills a new database.
func (s setting) fill(t testing.TB, start time.Time) *db.Store {
	t.Helper()
	store := openStore(t, testenv.Database(t))
	if err := Fill(t.Context(), store, []ListerName{DefaultLister}, s.origins, 0, start, nil); err != nil {
		t.Fatal(err)
	}
	if s.after != "" {
		execute(t, store, s.after)
	}
	return store
}

// The report's hourly counts equal the database's, while origins are listed, visited, fail until they are disabled,
// and are listed again.
func TestCensus(t *testing.T) {
	t.Parallel()
	setting := setting{OriginScheduler, model.OldestScheduledFirst, 300, 18, 400, ""}
	store := setting.fill(t, time.Now())
	// One more failure disables these origins.
	execute(t, store, `insert into origin_visit_stats (url, visit_type, last_visit, last_scheduled, last_visit_status, successive_visits)
		select url, visit_type, now() - interval '20 days', now() - interval '21 days', 'failed', 2
		from listed_origins where url > 'https://example.com/000100'`)
	// The simulator's lister doesn't list these origins, so that they stay disabled.
	execute(t, store, `with l as (insert into listers (name, instance_name, current_state, updated) values ('other', '', '{}', now()) returning id)
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select l.id, url, visit_type, '{}', true, now()
		from l, (select url, visit_type from listed_origins where url < 'https://example.com/000050'
		         union all select url || '?other', 'test-git' from listed_origins
		         union all select url, 'other' from listed_origins) o`)
	options := setting.options(t, store, time.Now())
	options.Listed = 0 // the lister lists the existing origins again
	s, err := newSimulation(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[counts]bool)
	disabled := false
	s.Progress = func(simulated time.Duration) {
		if err := s.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		metrics, err := store.UpdateMetrics(t.Context(), uuid.NullUUID{}, s.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		want := countsOf(metrics)
		if got := s.census.counts; got != want {
			t.Errorf("after %s: counted %+v, the database %+v", simulated, got, want)
		}
		seen[want] = true
		disabled = disabled || want.Enabled < want.Known
	}
	if _, err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) < 10 || !disabled {
		t.Errorf("only %d different counts, with disabled origins: %t", len(seen), disabled)
	}
}

func execute(t testing.TB, store *db.Store, statement string) {
	t.Helper()
	testenv.Exec(t, store.Pool(), statement)
}
