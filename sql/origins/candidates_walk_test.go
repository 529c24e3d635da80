package origins_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// If a filter makes a grab pass more candidates than its bound, the grab reads the tables. It doesn't miss
// later origins.
func TestGrabThatWouldWalkFarReadsTheTables(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated)
		 select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 2) n`,
		// The origins of one lister precede those of another.
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		 select ('00000000-0000-0000-0000-00000000000' || case when n <= 21000 then 1 else 2 end)::uuid, n, 'git', '{}', true, now(), '2020-01-01Z'::timestamptz + n * interval '1 second'
		 from generate_series(1, 21010) n`,
		// All cool down; the first in the policy's order cool down longest.
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		 select '00000000-0000-0000-0000-000000000001', n, 'hg', '{}', true, now(), '2020-01-01Z'::timestamptz + n * interval '1 second'
		 from generate_series(1, 21000) n`,
		`insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status)
		 select url, 'hg', now() - url::integer * interval '1 second', 'failed' from listed_origins where visit_type = 'hg'`,
		"analyze",
	} {
		testenv.Exec(t, testenv.Connect(t, dsn), statement)
	}
	testenv.Migrate(t, dsn, migrate.Options{})
	store := testenv.OpenLocal(t, dsn)
	for _, c := range []struct {
		filter model.VisitFilter
		first  int
	}{
		{model.VisitFilter{VisitType: "git", Cooldowns: model.DefaultCooldowns,
			ListerID: uuid.NullUUID{UUID: uuid.MustParse("00000000-0000-0000-0000-000000000002"), Valid: true}}, 21001},
		{model.VisitFilter{VisitType: "hg"}, 1},
	} {
		c.filter.Policy = model.NeverVisitedOldestUpdateFirst
		var want, got []string
		for i := range 5 {
			want = append(want, fmt.Sprint(c.first+i))
		}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, c.filter, time.Now(), 5, true)
			for _, o := range origins {
				got = append(got, o.URL)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}

	// Beside a full hoster, the grab finds other origins in the tables, or by the indexes by lister.
	hosters := model.Hosters{Limits: map[string]model.HosterLimit{"l/1": {MaxInFlight: 1}}, LostAfter: time.Hour}
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters) values ('sent', 'q', gen_random_uuid(), 't', '[]', '{}', '{l/1}')`)
	sparing := testenv.OpenLocal(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
	for _, built := range []bool{false, true} {
		if built {
			testenv.Migrate(t, dsn, migrate.Options{Hosters: hosters})
		}
		var got []string
		if err := sparing.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			f := model.VisitFilter{VisitType: "git", Cooldowns: model.DefaultCooldowns, Policy: model.NeverVisitedOldestUpdateFirst}
			origins, err := tx.GrabNextVisits(ctx, f, time.Now(), 5, false)
			for _, o := range origins {
				got = append(got, o.URL)
			}
			return errors.Join(err, errUndo)
		}); !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"21001", "21002", "21003", "21004", "21005"}, got); diff != "" {
			t.Errorf("beside a hoster that takes no more, with indexes by lister %v (-want +got):\n%s", built, diff)
		}
	}
}

// awaitReports waits until the other sessions of a database have ended. A session reports its reads when it
// ends, after its client has closed the connection.
func awaitReports(t *testing.T, store *db.Store) {
	t.Helper()
	testenv.Becomes(t, "other sessions of the database", 0, func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	})
}

// A grab with shorter cooldowns doesn't read more if many more origins cool down. Nor does one with the
// default cooldowns beside indexes for shorter ones.
func TestGrabWithShorterCooldownsWalksParkedCandidates(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*model.Cooldowns){
		"absolute":  func(c *model.Cooldowns) { c.Absolute /= 2 },
		"scheduled": func(c *model.Cooldowns) { c.Scheduled /= 2 },
		"failed":    func(c *model.Cooldowns) { c.Failed /= 2 },
		"not found": func(c *model.Cooldowns) { c.Failed, c.NotFound = c.NotFound, c.Failed },
		"none":      func(c *model.Cooldowns) { *c = model.Cooldowns{} },
		"default":   func(*model.Cooldowns) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read []int
			for _, origins := range []int{1000, 20_000} {
				dsn := testenv.PythonDatabase(t)
				conn := testenv.Connect(t, dsn)
				testenv.Exec(t, conn, `insert into listers (id, name, instance_name, current_state, updated)
					values ('00000000-0000-0000-0000-000000000001', 'l', 'l', '{}', now())`)
				testenv.Exec(t, conn, fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
					select '00000000-0000-0000-0000-000000000001', n, 'git', '{}', true, now(), '2020-01-01Z'::timestamptz + n * interval '1 second'
					from generate_series(1, %d) n`, origins))
				// A sixteenth each was just visited, waits for a visit, failed, or was not found; the
				// others were never scheduled.
				testenv.Exec(t, conn, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status)
					select url, 'git', now() - case k when 0 then r * interval '12 hours' when 1 then r * interval '7 days' else r * interval '40 days' end,
					  case k when 0 then now() when 1 then null else now() - r * interval '30 days' end,
					  case k when 2 then 'failed' when 3 then 'not_found' when 0 then 'successful' end::last_visit_status
					from (select url, url::integer % 16 as k, hashtext(url) / 4294967296.0 + 0.5 as r from listed_origins) o where k < 4`)
				testenv.Exec(t, conn, "analyze")
				_ = conn.Close(t.Context())
				f := model.VisitFilter{VisitType: "git", Policy: model.NeverVisitedOldestUpdateFirst, Cooldowns: model.DefaultCooldowns}
				change(&f.Cooldowns)
				testenv.Migrate(t, dsn, migrate.Options{ShorterCooldowns: name == "default", Policies: map[string][]model.WeightedPolicy{"git": {{Weight: 1, Filter: f}}}})
				store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
				for _, table := range []string{"scheduler_go.candidates", "origin_visit_stats"} {
					testenv.Exec(t, store.Pool(), "alter table "+table+" set (autovacuum_enabled = false)") // autovacuum would read blocks, too
				}
				blocks := func() int {
					return sqltest.BlocksOf(t, store, "candidates") + sqltest.BlocksOf(t, store, "origin_visit_stats")
				}
				awaitReports(t, store)
				before := blocks()
				if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					visits, err := tx.GrabNextVisits(ctx, f, time.Now(), 10, true)
					if len(visits) != 10 {
						t.Errorf("%d visits, want 10", len(visits))
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				read = append(read, blocks()-before)
			}
			if read[1] > 2*read[0]+100 {
				t.Errorf("%d blocks were read beside 20,000 origins, %d beside 1,000", read[1], read[0])
			}
		})
	}
}

// With several cooldowns shorter than the default ones, each may make an origin due. The smallest
// difference doesn't bound the others.
func TestGrabWithSeveralShorterCooldowns(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	f := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}
	early := len(w.grab(t, f, 10000, true))
	f.Cooldowns.Scheduled = time.Hour
	f.Cooldowns.Failed -= time.Minute
	for _, indexes := range []bool{false, true} {
		testenv.Migrate(t, w.dsn, migrate.Options{ShorterCooldowns: indexes})
		theirs := w.sortKeys(t, f, peer.grab(t, f, w.now, 10000, true))
		if diff := cmp.Diff(theirs, w.sortKeys(t, f, w.grab(t, f, 10000, true))); diff != "" {
			t.Errorf("indexes %v (-peer +ours):\n%s", indexes, diff)
		}
		if len(theirs) < early+10 {
			t.Errorf("%d origins, %d by the default cooldowns: the test shows nothing", len(theirs), early)
		}
	}
}

// A claim beside a drain records each mark once, with its date. Drains take changes in the order of their records, so a
// change after a mark takes effect.
func TestMarksOfAClaim(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	f := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}
	notes := func(when string, marked, others int) {
		t.Helper()
		var m, o int
		if err := w.store.Pool().QueryRow(t.Context(), "select count(scheduled), count(*) - count(scheduled) from scheduler_go.candidate_changes").Scan(&m, &o); err != nil {
			t.Fatal(err)
		}
		if m != marked || o != others {
			t.Errorf("%s: %d marks and %d other changes are noted, want %d and %d", when, m, o, marked, others)
		}
	}
	urls := map[string]bool{}
	var first string
	draining := testenv.Connect(t, w.dsn)
	testenv.Exec(t, draining, "select pg_advisory_lock(hashtextextended('swh-scheduler candidates', 0))")
	if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		origins, err := tx.GrabNextVisits(ctx, f, w.now, 20, false)
		for _, o := range origins {
			urls[o.URL] = true
		}
		first = origins[0].URL
		return err
	}); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, draining, "select pg_advisory_unlock_all()")
	notes("claimed", len(urls), 0)

	// Reset the origin to never visited.
	w.exec(t, "delete from origin_visit_stats where visit_type = 'git' and url = $1", first)
	notes("changed", len(urls), 1)
	seen := func(when string) {
		t.Helper()
		n := 0
		for _, o := range w.grab(t, f, 10_000, true) {
			if urls[o.url] && o.url != first {
				t.Errorf("%s: %s is picked again", when, o.url)
			}
			if o.url == first {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s: %s isn't picked", when, first)
		}
	}
	seen("pending")
	w.exec(t, "select scheduler_go.drain_candidates('git', $1)", len(urls))
	notes("marks drained", 0, 1)
	seen("marks drained")
	sqltest.Keep(t, w.store)
	seen("drained")
	sqltest.CheckCandidates(t, w.store)
}

// A claim moves the candidates of its origins. It leaves to a drain those that several listers list, that have
// pending changes, or that a failed visit holds back for longer.
func TestAClaimMovesCandidates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before string
		noted        int // of the five claimed
	}{
		{"new", "", 0},
		{"visited", "insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, last_successful, last_snapshot, last_scheduled) select url, 'git', now() - interval '1 year', 'successful', now() - interval '1 year', '\\x00', now() - interval '1 year' from listed_origins", 0},
		{"failed long ago", "insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) select url, 'git', now() - interval '1 year', 'failed' from listed_origins", 0},
		{"visited in the future", "insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) select url, 'git', now() + interval '1 year', 'successful' from listed_origins", 5},
		{"of two listers", "insert into listers (name, instance_name, current_state, updated) values ('second', '', '{}', now()); insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select l.id, o.url, o.visit_type, '{}', true, now() from listed_origins o, listers l where l.name = 'second'", 5},
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/limits of hosters %v", c.name, limited), func(t *testing.T) {
				t.Parallel()
				dsn := testenv.Database(t)
				store := testenv.OpenLocal(t, dsn)
				if limited {
					hosters := model.Hosters{Limits: map[string]model.HosterLimit{"other/1": {MaxInFlight: 1}}, LostAfter: time.Hour}
					store = testenv.OpenLocal(t, dsn, postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
				}
				sqltest.ListN(t, store, 5)
				if c.before != "" {
					testenv.Exec(t, store.Pool(), c.before)
				}
				sqltest.Keep(t, store)
				claim := func() (urls map[string]bool) {
					urls = make(map[string]bool)
					if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
						origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, time.Now(), 100, false)
						for _, o := range origins {
							urls[o.URL] = true
						}
						return err
					}); err != nil {
						t.Fatal(err)
					}
					return urls
				}
				if n := len(claim()); n != 5 {
					t.Fatalf("%d origins are claimed, want 5", n)
				}
				if n := testenv.Value[int](t, store.Pool(), "select count(distinct url) from scheduler_go.candidate_changes"); n != c.noted {
					t.Errorf("the claim leaves %d origins to a drain, want %d", n, c.noted)
				}
				if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.candidates where parked and last_scheduled is not null"); n < 5-c.noted {
					t.Errorf("the claim moves %d candidates, want %d", n, 5-c.noted)
				}
				if again := claim(); len(again) > 0 {
					t.Errorf("the next claim returns %v again", again)
				}
				if c.noted > 0 {
					sqltest.Keep(t, store)
				}
				sqltest.CheckCandidates(t, store)
			})
		}
	}
}
