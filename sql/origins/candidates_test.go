package origins_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// plainPolicies are the policies that candidates support.
var plainPolicies = policies[:5]

// A grab from candidates picks the same as the Python scheduler for any filter and time, with drained,
// pending, marked, parked and overdue candidates.
func TestGrabFromCandidatesPicksWhatThePeerPicks(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	now := w.now
	r := seed.Rand(t)
	for i := range 300 {
		if i == 150 {
			testenv.Migrate(t, w.dsn, migrate.Options{ShorterCooldowns: true})
		}
		switch r.IntN(4) {
		case 0:
			sqltest.Keep(t, w.store)
		case 1: // as after a late unparking
			w.exec(t, "update scheduler_go.candidates set parked = true where due < now() and (hashtext(url || $1) & 15) < 5", fmt.Sprint(r.IntN(1000)))
		case 2: // a claim; its marks may change afterwards
			w.now = now
			w.grab(t, w.plain(r, plainPolicies[i%len(plainPolicies)]), 20, false)
		}
		w.change(t, r, r.IntN(30))
		f := w.filter(r, policies[i%len(policies)])
		f.Disabled = false
		if r.IntN(2) == 0 {
			f = w.plain(r, plainPolicies[i%len(plainPolicies)])
		}
		w.now = now
		if r.IntN(3) == 0 {
			w.now = now.Add(time.Duration(r.Int64N(int64(80*24*time.Hour))) - 40*24*time.Hour).Truncate(time.Microsecond)
		}
		count := []int{0, 1, 7, 50, 10000}[r.IntN(5)]
		theirs := w.sortKeys(t, f, peer.grab(t, f, w.now, count, true))
		ours := w.sortKeys(t, f, w.grab(t, f, count, true))
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("%+v, count %d, at %s (-peer +ours):\n%s", f, count, w.now, diff)
		}
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// change changes some origins in every way that affects candidates, and in some that don't.
func (w *grabWorld) change(t *testing.T, r *rand.Rand, n int) {
	t.Helper()
	if err := w.changes(t.Context(), r, n); err != nil {
		t.Fatal(err)
	}
}

func (w *grabWorld) changes(ctx context.Context, r *rand.Rand, n int) error {
	for range n {
		url := fmt.Sprintf("https://example.org/%d", r.IntN(620))
		visitType := []string{"git", "hg"}[r.IntN(2)]
		lister := w.listers[r.IntN(len(w.listers))].ID
		var err error
		exec := func(statement string, args ...any) {
			_, err = w.store.Pool().Exec(ctx, statement, args...)
		}
		switch r.IntN(10) {
		case 0:
			exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
				values ($1, $2, $3, '{}', $4, now(), $5)
				on conflict (lister_id, url, visit_type) do update set enabled = excluded.enabled, last_update = excluded.last_update`,
				lister, url, visitType, r.IntN(4) > 0, w.sometimes(r))
		case 1:
			exec("update listed_origins set enabled = not enabled where url = $1", url)
		case 2:
			exec("update listed_origins set last_seen = now(), is_fork = $2 where url = $1", url, r.IntN(2) == 0)
		case 3:
			exec("delete from listed_origins where url = $1 and lister_id = $2", url, lister)
		case 4:
			exec(`update listed_origins set url = $1 where url = $2
				and not exists (select from listed_origins where url = $1)`, url+"/moved", url)
		case 5:
			exec("delete from origin_visit_stats where url = $1 and visit_type = $2", url, visitType)
		case 6:
			exec(`update origin_visit_stats set visit_type = $1 where url = $2
				and not exists (select from origin_visit_stats where url = $2 and visit_type = $1)`, visitType, url)
		case 7:
			exec(`insert into origin_visit_stats (url, visit_type, last_scheduled) values ($1, $2, $3)
				on conflict (url, visit_type) do update set last_scheduled = excluded.last_scheduled`, url, visitType, w.sometimes(r))
		default:
			status := []any{nil, "successful", "failed", "not_found"}[r.IntN(4)]
			snapshot := []any{nil, []byte("01234567890123456789")}[r.IntN(2)]
			exec(`insert into origin_visit_stats as s (url, visit_type, last_visit, last_visit_status, last_successful, last_snapshot, next_visit_queue_position)
				values ($1, $2, $3, $4, $5, $6, $7) on conflict (url, visit_type) do update
				set last_visit = excluded.last_visit, last_visit_status = excluded.last_visit_status, last_successful = excluded.last_successful,
				    last_snapshot = excluded.last_snapshot, next_visit_queue_position = excluded.next_visit_queue_position`,
				url, visitType, w.sometimes(r), status, w.sometimes(r), snapshot, []any{nil, r.IntN(20)}[r.IntN(2)])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Several writers run concurrently, some in long transactions, with several keepers. In each snapshot a candidate
// is right, or a change of its origin is pending. When all have ended, candidates are right.
func TestCandidatesFollowConcurrentWriters(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var keepers errgroup.Group
	for range 2 {
		keepers.Go(func() error {
			for writing.Err() == nil {
				if _, err := w.store.MaintainCandidates(t.Context()); err != nil {
					return err
				}
				if _, err := w.store.Pool().Exec(t.Context(), "select scheduler_go.raise_low_water(1)"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var writers errgroup.Group
	for i := range 4 {
		writers.Go(func() error {
			r := rand.New(rand.NewPCG(seed.Of(t), uint64(i)))
			for range 40 {
				if err := w.changes(t.Context(), r, 10); err != nil && !foreignDeadlock(err) {
					return err
				}
				if err := w.visits(t.Context(), r, 10); err != nil && !foreignDeadlock(err) {
					return fmt.Errorf("visits: %w", err)
				}
				if err := w.lists(t.Context(), r, 10); err != nil && !foreignDeadlock(err) {
					return fmt.Errorf("a listing: %w", err)
				}
				f := w.plain(r, plainPolicies[r.IntN(len(plainPolicies))])
				err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, err := tx.GrabNextVisits(ctx, f, w.now, 5, false)
					return err
				})
				if err != nil {
					return fmt.Errorf("a grab: %w", err)
				}
			}
			return nil
		})
	}
	keepers.Go(func() error {
		for writing.Err() == nil {
			if err := w.rightOrPending(t.Context(), w.store.Pool()); err != nil {
				return err
			}
		}
		return nil
	})
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	stop()
	if err := keepers.Wait(); err != nil {
		t.Error(err)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// PostgreSQL ends connections that write visits, at any statement. In each snapshot a candidate is right, or a
// change of its origin is pending.
func TestCandidatesOfKilledWriters(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var killer, writers errgroup.Group
	conn := testenv.Connect(t, w.dsn)
	killer.Go(func() error {
		defer stop()
		for killed := 0; killed < 10; {
			var n int
			if err := conn.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and state <> 'idle' and query ~ 'name: (WriteVisitStats|OpenCandidates|LockVisitStats)' and random() < 0.5`).Scan(&n); err != nil {
				return err
			}
			killed += n
			if err := w.rightOrPending(t.Context(), conn); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range 2 {
		writers.Go(func() error {
			r := rand.New(rand.NewPCG(seed.Of(t), uint64(i)))
			for writing.Err() == nil {
				err := w.visits(t.Context(), r, 20)
				if _, refused := errors.AsType[*postgres.RefusedError](err); refused {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(killer.Wait(), writers.Wait()); err != nil {
		t.Error(err)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// differing selects the origins whose candidates have wrong values in some columns.
func differing(columns string) string {
	return `select url, visit_type from (
	(select ` + columns + ` from scheduler_go.candidates except all select ` + columns + ` from scheduler_go.candidates_now)
	union all
	(select ` + columns + ` from scheduler_go.candidates_now except all select ` + columns + ` from scheduler_go.candidates)) c`
}

// rightOrPending returns an error unless, in one snapshot, each candidate is right or a change of its origin is
// pending.
func (w *grabWorld) rightOrPending(ctx context.Context, db interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}) error {
	rows, err := db.Query(ctx, differing(sqltest.CandidateColumns)+` where (url, visit_type) not in (select url, visit_type from scheduler_go.candidate_changes)
		union all
		`+differing("lister_id, url, visit_type, last_update, first_seen, fork")+` where (url, visit_type) not in (select url, visit_type from scheduler_go.candidate_changes where listed)`)
	if err != nil {
		return err
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowToStructByPos[model.OriginKey])
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("%d candidates are wrong and no change of them is pending: %v", len(wrong), wrong)
	}
	return err
}

// visits records visits of some origins, as the journal client does, and disables one in some of the calls.
func (w *grabWorld) visits(ctx context.Context, r *rand.Rand, n int) error {
	keys := make(map[model.OriginKey]bool)
	for range n {
		keys[model.OriginKey{URL: fmt.Sprintf("https://example.org/%d", r.IntN(620)), VisitType: []string{"git", "hg"}[r.IntN(2)]}] = true
	}
	return w.store.UpdateVisitStats(ctx, slices.Collect(maps.Keys(keys)), func(ledger.KnownVisits) (c ledger.VisitChanges) {
		for k := range keys {
			s := model.VisitStats{URL: k.URL, VisitType: k.VisitType, LastVisit: w.sometimes(r), NextVisitQueuePosition: new(r.Int64N(20)), SuccessiveVisits: 1}
			if s.LastVisitStatus = model.VisitNotFound; r.IntN(2) == 0 {
				s.LastVisitStatus, s.LastSuccessful, s.LastSnapshot = model.VisitSuccessful, s.LastVisit, []byte("01234567890123456789")
			}
			if s.LastVisit == nil {
				s.LastVisit = &w.now
			}
			c.Stats = append(c.Stats, &s)
			if r.IntN(4*n) == 0 {
				c.DisabledURLs = []string{k.URL}
			}
		}
		return c
	})
}

// lists records listed origins, as listers do by our RPC server.
func (w *grabWorld) lists(ctx context.Context, r *rand.Rand, n int) error {
	origins := make([]model.ListedOrigin, n)
	for i := range origins {
		origins[i] = model.ListedOrigin{
			ListerID: w.listers[r.IntN(len(w.listers))].ID, URL: fmt.Sprintf("https://example.org/%d", r.IntN(620)), VisitType: []string{"git", "hg"}[r.IntN(2)],
			Enabled: r.IntN(5) > 0, LastUpdate: w.sometimes(r),
		}
	}
	_, err := w.store.RecordListedOrigins(ctx, origins, false)
	return err
}

// foreignDeadlock reports whether the server ended a statement of a lister for a deadlock or a concurrent
// insert of the same key. Listers can cause these among themselves. Grabs and keepers must never fail so.
func foreignDeadlock(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "40P01" || pgErr.Code == "23505")
}

// A listing and a first visit that commit concurrently, in either order, with a drain between them, both
// reach the candidate.
func TestCandidatesSeeWhatTransactionsDoSideBySide(t *testing.T) {
	t.Parallel()
	for _, listingFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("listing first: %t", listingFirst), func(t *testing.T) {
			t.Parallel()
			store := testenv.OpenLocal(t, testenv.Database(t))
			ctx := t.Context()
			if _, err := store.Pool().Exec(ctx, `insert into listers (id, name, instance_name, current_state, updated)
				values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())`); err != nil {
				t.Fatal(err)
			}
			var writers [2]interface {
				Commit(context.Context) error
			}
			for i, statement := range []string{
				`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
				 values ('00000000-0000-0000-0000-000000000001', 'u', 'git', '{}', true, now())`,
				`insert into origin_visit_stats (url, visit_type, last_scheduled) values ('u', 'git', now())`,
			} {
				tx, err := store.Pool().Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec(ctx, statement); err != nil {
					t.Fatal(err)
				}
				writers[i] = tx
			}
			if !listingFirst {
				slices.Reverse(writers[:])
			}
			for _, tx := range writers {
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				sqltest.Keep(t, store)
				sqltest.CheckCandidates(t, store)
			}
		})
	}
}

// Times at the limits of PostgreSQL's arithmetic stop nothing. An origin scheduled in the far future is not
// due, and an infinite lag is the longest.
func TestCandidatesWithFarTimes(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	far := []string{"infinity", "-infinity", "294276-12-31 23:59:59.999999Z", "4714-11-24Z BC", "9999-12-31 23:59:59.999999Z", "0001-01-01Z", "2020-01-01Z"}
	i := 0
	for _, updated := range far {
		for _, visited := range far {
			for _, status := range []string{"successful", "failed", "not_found"} {
				i++
				url := fmt.Sprintf("https://far.example.org/%d", i)
				w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, first_seen, last_update)
					values ($1, $2, 'svn', '{}', true, now(), now(), $3::text::timestamptz)`, w.listers[0].ID, url, updated)
				w.exec(t, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_successful, last_visit_status, last_snapshot)
					values ($1, 'svn', $2::text::timestamptz, $3::text::timestamptz, $3::text::timestamptz, $4::text::last_visit_status, 'x')`, url, far[i%len(far)], visited, status)
			}
		}
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	// An answer has only finite times of listed_origins.
	w.exec(t, "update listed_origins set last_update = '294276-12-31Z' where last_update = 'infinity'")
	w.exec(t, "update listed_origins set last_update = '4714-11-24Z BC' where last_update = '-infinity'")
	lagging := func(when string, cooldowns model.Cooldowns) {
		t.Helper()
		f := w.svn(model.AlreadyVisitedOrderByLag)
		f.Cooldowns = cooldowns
		var lags []float64
		for _, o := range w.grab(t, f, 1000, true) {
			lag := testenv.Value[float64](t, w.store.Pool(), `select extract(epoch from lo.last_update) - extract(epoch from ovs.last_successful)
				from listed_origins lo join origin_visit_stats ovs using (url, visit_type) where url = $1`, o.url)
			lags = append(lags, min(lag, math.MaxInt64/1e6)) // the bound of an interval
		}
		slices.Reverse(lags)
		if len(lags) != 36 || lags[0] <= 0 || !slices.IsSorted(lags) {
			t.Errorf("%s: %d origins, the last first: %v; want 36, the longest lag first", when, len(lags), lags)
		}
	}
	lagging("changes pending", model.DefaultCooldowns)
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	lagging("drained", model.DefaultCooldowns)
	other := model.DefaultCooldowns
	other.Absolute++
	lagging("from the tables", other)
	var notDue int
	for _, o := range w.grab(t, w.svn(model.OldestScheduledFirst), 1000, true) {
		future := testenv.Value[bool](t, w.store.Pool(), "select last_scheduled > now() from origin_visit_stats where url = $1", o.url)
		if future {
			notDue++
		}
	}
	if notDue > 0 {
		t.Errorf("%d origins are scheduled in the future and were grabbed", notDue)
	}
}

func (w *grabWorld) svn(policy model.VisitPolicy) model.VisitFilter {
	return model.VisitFilter{VisitType: "svn", Policy: policy, Cooldowns: model.DefaultCooldowns}
}

// With more pending changes than a grab reads, it still picks the next origins. Real grabs drain; once
// enough is drained, grabs use candidates again.
func TestGrabWithALargeBacklog(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, first_seen, last_update)
		select $1, 'https://new.example.org/' || n, 'git', '{}', true, now(), now(), now() - n * interval '1 minute'
		from generate_series(1, 12000) n`, w.listers[0].ID)
	f := model.VisitFilter{VisitType: "git", Policy: model.NeverVisitedOldestUpdateFirst, Cooldowns: model.DefaultCooldowns}
	compare := func(when string) {
		t.Helper()
		theirs := w.sortKeys(t, f, peer.grab(t, f, w.now, 500, true))
		ours := w.sortKeys(t, f, w.grab(t, f, 500, true))
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("%s (-peer +ours):\n%s", when, diff)
		}
	}
	backlog := func() int64 {
		t.Helper()
		n, err := w.store.CandidateBacklog(t.Context(), 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	compare("all pending")
	if got := backlog(); got != 12000 {
		t.Errorf("a dry run left %d changes pending, want all 12000", got)
	}
	w.grab(t, f, 10, false)
	if got := backlog(); got > 3000 {
		t.Errorf("a real grab left %d changes pending", got)
	}
	compare("after a real grab")
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	compare("all drained")
	w.exec(t, "delete from scheduler_go.candidates")
	if got := w.grab(t, f, 10, true); len(got) > 0 {
		t.Error("once all is drained, something else than candidates is read")
	}
}

// A grab doesn't wait for a drain or a build, even with many pending changes.
func TestGrabBesideABuild(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, first_seen)
		select $1, 'https://new.example.org/' || n, 'git', '{}', true, now(), now() from generate_series(1, 6000) n`, w.listers[0].ID)
	err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockCandidates(ctx); err != nil {
			return err
		}
		grabbing, cancel := context.WithTimeout(ctx, 50*time.Second) // lock_timeout is 60 s
		defer cancel()
		return w.store.InTx(grabbing, func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, w.now, 10, false)
			if err == nil && len(origins) != 10 {
				t.Errorf("%d origins, want 10", len(origins))
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// After a truncate, rolled back or committed, grabs are right, and the keeper rebuilds candidates.
func TestCandidatesAfterTruncate(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"listed_origins", "origin_visit_stats"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
			sqltest.Keep(t, w.store)
			w.exec(t, "truncate "+table)
			r := seed.Rand(t)
			for _, when := range []string{"not built", "built"} {
				w.change(t, r, 100)
				for _, policy := range plainPolicies {
					f := w.plain(r, policy)
					theirs := w.sortKeys(t, f, peer.grab(t, f, w.now, 100, true))
					ours := w.sortKeys(t, f, w.grab(t, f, 100, true))
					if diff := cmp.Diff(theirs, ours); diff != "" {
						t.Fatalf("%s, %+v (-peer +ours):\n%s", when, f, diff)
					}
				}
				sqltest.Keep(t, w.store)
				sqltest.CheckCandidates(t, w.store)
			}
		})
	}
}

// The pools partition the origins with a known last update. The pool that the Python scheduler lacks is the
// same from candidates and from the tables.
func TestPoolsPartitionTheOrigins(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.now = w.now.Add(25 * time.Hour) // the day, second or microsecond of each update is over: until then its origin is in no pool
	grab := func(policy model.VisitPolicy) []string {
		f := model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns, OfPools: true}
		return w.sortKeys(t, f, w.grab(t, f, 10000, true))
	}
	all := len(grab(model.OldestScheduledFirst))
	for _, policy := range []model.VisitPolicy{model.OriginsWithoutLastUpdate,
		model.NeverVisitedOldestUpdateFirst, model.AlreadyVisitedOrderByLag, model.OthersByVisitTarget} {
		n := len(grab(policy))
		if n == 0 {
			t.Errorf("%s has no origins: the test shows nothing", policy)
		}
		all -= n
	}
	if all != 0 {
		t.Errorf("%d origins are in no pool, or in several (if negative)", all)
	}
	fromCandidates := grab(model.OthersByVisitTarget)
	w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
	if diff := cmp.Diff(grab(model.OthersByVisitTarget), fromCandidates); diff != "" {
		t.Errorf("-tables +candidates:\n%s", diff)
	}
}

// The policy pools treats updates as old as the visit as unseen. The Python scheduler's policy of the same
// name doesn't pick them here either, from candidates and from the tables.
func TestUpdatesAsOldAsTheVisit(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	w.exec(t, `update origin_visit_stats set last_successful = coalesce(last_successful, now() - interval '9 days');
		update listed_origins lo set last_update = date_trunc(case when hashtext(lo.url) % 2 = 0 then 'second' else 'day' end, ovs.last_successful, 'UTC')
		from origin_visit_stats ovs where ovs.url = lo.url and ovs.visit_type = lo.visit_type and lo.last_update is not null and hashtext(lo.url) % 3 = 0`)
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	if n := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.candidates where lag = '0' and visit_type = 'git' and not parked"); n < 5 {
		t.Fatalf("%d origins are as old as their visit: the test shows too little", n)
	}
	for _, when := range []string{"built", "not built"} {
		f := model.VisitFilter{VisitType: "git", Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.DefaultCooldowns}
		theirs, ours := w.sortKeys(t, f, peer.grab(t, f, w.now, 10000, true)), w.sortKeys(t, f, w.grab(t, f, 10000, true))
		if diff := cmp.Diff(theirs, ours); diff != "" || len(ours) == 0 {
			t.Errorf("%s, %d origins (-peer +ours):\n%s", when, len(ours), diff)
		}
		f.OfPools = true
		if more := w.grab(t, f, 10000, true); len(more) <= len(ours) {
			t.Errorf("%s: pools picks %d origins, the Python scheduler %d", when, len(more), len(ours))
		}
		w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
	}
}

// A rebuild repairs changes that triggers missed.
func TestRebuild(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.exec(t, `alter table listed_origins disable trigger user;
		update listed_origins set last_update = '2020-01-01', enabled = not enabled;
		alter table listed_origins enable trigger user`)
	testenv.Migrate(t, w.dsn, migrate.Options{Rebuild: true})
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// An interrupted build resumes, even if copied and uncopied rows change meanwhile.
func TestBuildGoesOn(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
	if _, err := w.store.MaintainCandidates(t.Context()); err != nil { // to the phase "rows"
		t.Fatal(err)
	}
	r := seed.Rand(t)
	for range 3 {
		w.exec(t, "select scheduler_go.copy_candidates(100)")
		w.change(t, r, 50)
	}
	rows := testenv.Value[int](t, w.store.Pool(), "select rows from scheduler_go.candidate_build where phase = 'rows'")
	if rows != 300 {
		t.Errorf("%d rows are copied, want 300", rows)
	}
	testenv.Migrate(t, w.dsn, migrate.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// A first listing fills tables before any ANALYZE. A drain still finds each origin by URL and doesn't scan
// all candidates for each.
func TestDrainOfAFirstListing(t *testing.T) {
	t.Parallel()
	const origins = 20_000
	store := testenv.OpenLocal(t, testenv.Database(t))
	for _, statement := range []string{
		"alter table scheduler_go.candidates set (autovacuum_enabled = off)",
		"insert into listers (name, instance_name, current_state, updated) values ('github', '', '{}', now())",
		fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select (select id from listers), 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(1, %d) n`, origins),
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	sqltest.Keep(t, store)
	sqltest.CheckCandidates(t, store)
	for range 3 { // for as many statements as a connection caches a plan for one
		testenv.Exec(t, store.Pool(), "update listed_origins set last_update = coalesce(last_update, '2026-01-01') + interval '1 day' where url like '%7'")
		sqltest.Keep(t, store)
	}
	var read int
	store.Close() // connections report their reads when they end
	other := testenv.OpenLocal(t, store.Pool().Config().ConnString())
	testenv.Becomes(t, "PostgreSQL tells what was read", true, func() bool {
		var updates int
		err := other.Pool().QueryRow(t.Context(), `select
			(select n_tup_ins from pg_stat_user_tables where relname = 'candidates'),
			(select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'candidates' and indexrelname <> 'candidates_url_idx')`).Scan(&updates, &read)
		if err != nil {
			t.Fatal(err)
		}
		return updates > 0
	})
	if read > 10*origins {
		t.Errorf("%d entries of other indexes were read to drain %d origins", read, origins)
	}
}

// A drain updates a candidate on its page, so that no index entry of others is written.
func TestDrainLeavesCandidatesOnTheirPages(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.ListN(t, store, 1000)
	sqltest.Keep(t, store)
	const pages = "select url || ' ' || (ctid::text::point)[0] from scheduler_go.candidates where url like '%77' order by 1"
	before := testenv.Column[string](t, store.Pool(), pages)
	testenv.Exec(t, store.Pool(), "update listed_origins set last_update = now() where url like '%77'")
	sqltest.Keep(t, store)
	if diff := cmp.Diff(before, testenv.Column[string](t, store.Pool(), pages)); diff != "" || len(before) != 10 {
		t.Errorf("of %d candidates (-before +after):\n%s", len(before), diff)
	}
	sqltest.CheckCandidates(t, store)
}
