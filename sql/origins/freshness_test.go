package origins_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/journal"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/origins"
)

const day = 24 * time.Hour

// byFreshness are policies that need moments.
var byFreshness = map[string][]model.WeightedPolicy{"git": {{Weight: 1, LongestWait: 100 * day, Filter: model.VisitFilter{Policy: model.Freshness}}}}

// refreshed migrates for the policy freshness, gives it to visit types, and sets the threshold.
func refreshed(t *testing.T, dsn string, store *db.Store, threshold float64, visitTypes ...string) {
	t.Helper()
	testenv.Migrate(t, dsn, migrate.Options{Policies: byFreshness})
	longest := make(map[string]time.Duration)
	for _, visitType := range visitTypes {
		longest[visitType] = 100 * day
	}
	if err := store.ConfigureFreshness(t.Context(), longest); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.freshness_control set threshold = $1, applied = $1", threshold)
}

// computeMoments does one pass over all candidates.
func computeMoments(t *testing.T, store *db.Store, now time.Time) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch', finished = null")
	pages := testenv.Value[int](t, store.Pool(), "select (pg_relation_size('scheduler_go.candidates') / 8192)::int")
	for calls := 0; testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.walks where name = 'moments of candidates' and finished is not null") == 0; calls++ {
		if err := store.MaintainFreshness(t.Context(), now, time.Minute); err != nil {
			t.Fatal(err)
		}
		if calls > 3*pages+10 { // what moves is seen twice
			t.Fatalf("%d calls did not go through %d pages", calls, pages)
		}
	}
}

// Moments in the database equal those of the formulas for any origin, and no wait exceeds the longest wait.
// A grab picks the earliest moments first, from candidates with drained and pending changes and from the
// tables.
func TestGrabByFreshness(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	r := seed.Rand(t)
	refreshed(t, w.dsn, w.store, 1000, "git")
	sqltest.Keep(t, w.store)
	computeMoments(t, w.store, w.now)
	sqltest.CheckCandidates(t, w.store)
	if n := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.candidates where moment is not null and visit_type <> 'git' or moment is null and visit_type = 'git'"); n > 0 {
		t.Errorf("%d candidates have a moment and should not, or the other way round", n)
	}
	compared := map[bool]int{}
	moments := make(map[picked]time.Time)
	var keys []model.OriginKey
	rows, err := w.store.Pool().Query(t.Context(), "select lister_id, url, moment from scheduler_go.candidates where visit_type = 'git'")
	if err != nil {
		t.Fatal(err)
	}
	var c picked
	var moment time.Time
	if _, err := pgx.ForEachRow(rows, []any{&c.lister, &c.url, &moment}, func() error {
		moments[c], keys = moment, append(keys, model.OriginKey{URL: c.url, VisitType: "git"})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	known, err := w.store.OriginFreshness(t.Context(), keys)
	if err != nil || len(known) < 100 {
		t.Fatal(len(known), err)
	}
	for _, o := range known {
		url, got := o.URL, moments[picked{o.Lister, o.URL}]
		want := o.Moment(w.now)
		if o.LastVisit.IsZero() {
			o.LastVisit = o.FirstSeen
		}
		wait := got.Sub(o.LastVisit)
		if off := got.Sub(want).Abs(); off > time.Second+wait/100_000 {
			t.Errorf("%s: moment %s, want %s (%+v)", url, got, want, o)
		}
		if wait < 0 || wait > 100*day {
			t.Errorf("%s waits for %s", url, wait)
		}
		compared[o.LastUpdate.After(o.LastVisit)]++
	}
	if compared[true] < 20 || compared[false] < 20 {
		t.Errorf("only %v were compared, by whether their lister tells of an update", compared)
	}
	now, picked := w.now, 0
	for range 10 {
		if r.IntN(3) == 0 {
			sqltest.Keep(t, w.store)
		}
		w.change(t, r, r.IntN(30))
		f := model.VisitFilter{VisitType: "git", Policy: model.Freshness, Cooldowns: model.DefaultCooldowns}
		w.now = now.Add(time.Duration(r.IntN(60)) * day) // moments come
		if r.IntN(3) == 0 {
			f.Cooldowns.Failed = 90 * time.Second
		}
		tables := f
		tables.TableSample, tables.Inexact = 100, true
		got := w.sortKeys(t, f, w.grab(t, f, 1000, true))
		if diff := cmp.Diff(w.sortKeys(t, f, w.grab(t, tables, 1000, true)), got); diff != "" {
			t.Fatalf("%+v (-tables +candidates):\n%s", f, diff)
		}
		picked += len(got)
	}
	if all := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.candidates where visit_type = 'git'"); picked < 50 || picked > 9*all {
		t.Errorf("picked %d times one of %d origins: the test shows little", picked, all)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// Estimates follow successful visits, each counted once, but no failed, late or repeated ones. Updates that
// the lister reports count, too, but not the visits that they cause. Visit types without the policy have no
// estimates.
func TestVisitsTeachRates(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 2) // https://example.org/1 and 2
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	testenv.Exec(t, store.Pool(), "update listed_origins set first_seen = $1", start)
	visit := func(url string, day int, status model.VisitStatus, snapshot string) journal.Visit {
		v := journal.Visit{OriginKey: model.OriginKey{URL: url, VisitType: "git"}, Date: start.AddDate(0, 0, day), Status: status}
		if status == model.VisitSuccessful {
			v.Snapshot = []byte(snapshot)
		}
		return v
	}
	write := func(visits ...journal.Visit) {
		t.Helper()
		if _, err := (journal.Rules{}).Write(t.Context(), store, visits); err != nil {
			t.Fatal(err)
		}
	}
	const plain, told = "https://example.org/1", "https://example.org/2"
	write(visit(plain, 1, model.VisitSuccessful, "a"), visit(told, 1, model.VisitSuccessful, "a"))
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.freshness"); n > 0 {
		t.Errorf("%d estimates are kept although no visit type has the policy", n)
	}
	refreshed(t, dsn, store, 300, "git")
	known := func(url string) origins.OriginFreshness {
		t.Helper()
		known, err := store.OriginFreshness(t.Context(), []model.OriginKey{{URL: url, VisitType: "git"}})
		if err != nil || len(known) != 1 {
			t.Fatal(known, err)
		}
		return known[0]
	}
	same := func(what string, got, want freshness.Estimate) {
		t.Helper()
		if math.Abs(got.Changes/want.Changes-1) > 1e-4 || math.Abs(got.Days/want.Days-1) > 1e-4 {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}

	// The visit before is known from the stats.
	write(visit(plain, 3, model.VisitSuccessful, "a"))
	prior := func(day int) freshness.Estimate {
		return freshness.Facts{Age: time.Duration(day) * 24 * time.Hour}.Prior()
	}
	want := freshness.Estimate{}.Observe(prior(3), 2*day, freshness.Unchanged)
	same("after a visit without a change", known(plain).Estimate, want)
	write(visit(plain, 5, model.VisitFailed, ""), visit(plain, 6, model.VisitNotFound, ""))
	write(visit(plain, 3, model.VisitSuccessful, "b"), visit(plain, 2, model.VisitSuccessful, "b"))
	if got := known(plain); !got.LastVisit.Equal(start.AddDate(0, 0, 3)) {
		t.Errorf("seen at %s, want the last visit that succeeded", got.LastVisit)
	}
	same("after failures, and visits that come late and again", known(plain).Estimate, want)
	write(visit(plain, 9, model.VisitSuccessful, "b"), visit(plain, 10, model.VisitSuccessful, "b"))
	want = want.Observe(prior(9), 6*day, freshness.Changed).Observe(prior(10), day, freshness.Unchanged)
	same("after two visits in a batch", known(plain).Estimate, want)

	testenv.Exec(t, store.Pool(), "update listed_origins set last_update = $2 where url = $1", told, start.AddDate(0, 0, 1).Add(-2*time.Second))

	// One that the Python journal client applied teaches nothing, and puts the next one off.
	const moment = "select scheduler_go.moment_of('git', 'https://example.org/1', null, now(), null, true, (select last_successful from origin_visit_stats where url = 'https://example.org/1'))"
	before := testenv.Column[time.Time](t, store.Pool(), moment)[0]
	testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_visit = $2, last_successful = $2 where url = $1", plain, start.AddDate(0, 0, 13))
	if after := testenv.Column[time.Time](t, store.Pool(), moment)[0]; !after.Equal(before.AddDate(0, 0, 3)) {
		t.Errorf("the moment was %s and is %s, want 3 days later", before, after)
	}
	write(visit(plain, 15, model.VisitSuccessful, "b"))
	same("after a visit that was not learnt from, and another", known(plain).Estimate, want.Observe(prior(15), 2*day, freshness.Unchanged))

	testenv.Exec(t, store.Pool(), "update listed_origins set last_seen = $1", start.AddDate(0, 0, 3))
	write(visit(told, 4, model.VisitSuccessful, "b"))
	// Of the two days until the last listing, a change would have been reported in nine tenths.
	facts := freshness.Facts{Age: 4 * day, SinceUpdate: 3 * day}.Prior()
	want = freshness.Estimate{}.Observe(facts, 2*day*9/10, freshness.Unchanged).Observe(facts, 3*day-2*day*9/10, freshness.Changed)
	same("after a visit without news of its lister", known(told).Estimate, want)
	missed := known(told).News
	if missed.Missed <= 0 || missed.Missed >= 1 || missed.Reported <= 0 || missed.Right+missed.Wrong > 0 {
		t.Errorf("%+v, want a part of the change to be missed, as the rest may have come after the listing", missed)
	}
	testenv.Exec(t, store.Pool(), "update listed_origins set last_update = $2, last_seen = $3 where url = $1", told, start.AddDate(0, 0, 6), start.AddDate(0, 0, 7))
	write(visit(told, 8, model.VisitSuccessful, "c"))
	want = want.WithReports(freshness.Facts{Age: 7 * day}.Prior(), 3*day, day, day, missed.Recall())
	same("after an update, and the visit that it caused", known(told).Estimate, want)
	if n := known(told).News; math.Abs(n.Right+n.Wrong-1) > 1e-4 || n.Right < 0.9 {
		t.Errorf("%+v, want the news to be right", n)
	}
	write(visit(told, 9, model.VisitSuccessful, "c"))
	want = want.Observe(freshness.Facts{Age: 9 * day}.Prior(), 2*day, freshness.Unchanged)
	same("after a visit that finds nothing since that listing", known(told).Estimate, want)
}

// Claims adjust the threshold. It rises towards the values of the visits while more is due, and falls while
// workers are idle. Candidates get their moments by it. A visit type that loses the policy loses its
// moments.
func TestThresholdFollowsTheCapacity(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 300)
	now := time.Now().UTC().Truncate(time.Second)
	testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
		select url, 'git', $1, $1, 'successful', 'x' from listed_origins where substring(url from '\d+')::int > 100`, now.Add(-40*day))
	refreshed(t, dsn, store, 100, "git")
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	moment := func() time.Time {
		t.Helper()
		return testenv.Column[time.Time](t, store.Pool(), "select min(moment) from scheduler_go.candidates where loaded")[0]
	}
	// claims returns the threshold after a claim each hour of some days.
	claims := func(days int, busy, due bool) float64 {
		t.Helper()
		for range days * 24 {
			now = now.Add(time.Hour)
			if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if !due {
					return tx.StepThreshold(ctx, "git", now, busy, nil)
				}
				origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.Freshness}, now, 150, true)
				if err != nil || len(origins) < 150 {
					t.Fatal(len(origins), err)
				}
				var keys []model.OriginKey
				for _, o := range origins {
					keys = append(keys, model.OriginKey{URL: o.URL, VisitType: o.VisitType})
				}
				return tx.StepThreshold(ctx, "git", now, busy, keys)
			}); err != nil {
				t.Fatal(err)
			}
		}
		return testenv.Column[float64](t, store.Pool(), "select threshold from scheduler_go.freshness_control")[0]
	}
	first := moment()
	raised := claims(4, true, true)
	computeMoments(t, store, now)
	if later := moment(); raised <= 125 || !later.After(first) {
		t.Errorf("with visits due the threshold went from 100 to %g, the first moment from %s to %s", raised, first, later)
	}
	if lowered := claims(4, false, false); lowered >= raised {
		t.Errorf("without work the threshold went from %g to %g", raised, lowered)
	}
	figures, err := store.Figures(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if n := figures.Freshness["git"]; n.Origins < 200 || n.Staleness <= 0 || n.Threshold <= 0 {
		t.Errorf("counted %+v, want 200 origins that were visited", n)
	}

	if err := store.ConfigureFreshness(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_visit = last_visit + interval '1 hour'")
	sqltest.Keep(t, store)
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.candidates where moment is not null and loaded"); n > 0 {
		t.Errorf("%d candidates keep their moments", n)
	}
}

// After a lister has stopped, its origins without updates are visited as soon as those without any lister's
// updates. A lister that continues is trusted, even if it only lists changed origins.
func TestStoppedListerIsNotTrusted(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	refreshed(t, dsn, store, 3e4, "git")
	for _, of := range []struct {
		url                        string
		seen, finished, lastUpdate any
	}{
		{"untold", ago(0), ago(0), nil},
		{"stopped", ago(80), ago(80), ago(200)},
		{"listed", ago(0), nil, ago(200)},
		{"incremental", ago(80), ago(0), ago(200)},
	} {
		testenv.Exec(t, store.Pool(), "insert into listers (id, name, instance_name, current_state, updated) values (uuid_in(md5($1)::cstring), 'l', $1, '{}', now())", of.url)
		if of.finished != nil {
			testenv.Exec(t, store.Pool(), "insert into scheduler_go.listings (lister_id, finished, previous) values (uuid_in(md5($1)::cstring), $2, $2::timestamptz - interval '1 day')", of.url, of.finished)
		}
		testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
			values (uuid_in(md5($1)::cstring), $1, 'git', '{}', true, $2, $3, $4)`, of.url, ago(300), of.seen, of.lastUpdate)
		testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
			values ($1, 'git', $2, $2, 'successful', 'x')`, of.url, ago(90))
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, updated, listed, moment)
			values (hashtextextended('git ' || $1, 0), 5, 500, 60, $2, $3, $2, $2::timestamptz + interval '100 days')`, of.url, ago(90), of.lastUpdate)
	}
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	wait := make(map[string]float64) // days from the last visit on
	for _, url := range []string{"untold", "stopped", "listed", "incremental"} {
		wait[url] = testenv.Column[time.Time](t, store.Pool(), "select moment from scheduler_go.candidates where url = '"+url+"'")[0].Sub(ago(90)).Hours() / 24
	}
	if math.Abs(wait["stopped"]/wait["untold"]-1) > 0.05 || wait["listed"] < 1.5*wait["untold"] || wait["incremental"] < 1.5*wait["untold"] {
		t.Errorf("visits wait for %v days", wait)
	}
}

// A success date outside the calendar counts as none, in the database and in the program: the origin is
// visited.
func TestFarDatesOfSuccessDoNotCount(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 4)
	refreshed(t, dsn, store, 300, "git")
	now := time.Now().UTC().Truncate(time.Second)
	for i, date := range []string{"2200-01-01Z", "infinity", "1800-01-01Z", "9999-12-31Z"} {
		testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_snapshot)
			values ('https://example.org/' || $1::int, 'git', $2::text::timestamptz, 'x')`, i+1, date)
	}
	// A snapshot that is gone takes the visit along.
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, moment)
		values (hashtextextended('git https://example.org/4', 0), 1, 1, 60, now(), now() + interval '50 days')`)
	testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_snapshot = null where url = 'https://example.org/4'")
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	for i := range 4 {
		key := model.OriginKey{URL: fmt.Sprint("https://example.org/", i+1), VisitType: "git"}
		known, err := store.OriginFreshness(t.Context(), []model.OriginKey{key})
		if err != nil || len(known) != 1 {
			t.Fatal(known, err)
		}
		got := testenv.Column[time.Time](t, store.Pool(), "select moment from scheduler_go.candidates where url = '"+key.URL+"'")[0]
		if got.After(now.Add(time.Minute)) || got.Sub(known[0].Moment(now)).Abs() > time.Minute {
			t.Errorf("%s: moment %s in the database, %s in the program", key.URL, got, known[0].Moment(now))
		}
	}
	o := origins.OriginFreshness{}
	if o.Visited(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), true); !o.LastVisit.IsZero() {
		t.Errorf("a visit in 2300 was learnt from: %+v", o)
	}
}

// Estimates of deleted origins, and of visit types without the policy, are deleted after twice the longest
// wait: 200 days with the policy here, two years without.
func TestEstimatesAreForgotten(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	refreshed(t, dsn, store, 300, "git")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, moment)
		select n, 1, 1, 60, now() - n * interval '1 day', now() from generate_series(1, 1000) n`)
	left := func() int {
		t.Helper()
		testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
		for range 10 { // it ends at once; a walk that is underway goes on
			if err := store.ForgetFreshness(t.Context(), store.Now(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		return testenv.Value[int](t, store.Pool(), "select max(origin)::int from scheduler_go.freshness")
	}
	if n := left(); n < 199 || n > 200 {
		t.Errorf("the oldest is %d days old", n)
	}
	if err := store.ConfigureFreshness(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, moment)
		select n, 1, 1, 60, now() - n * interval '1 day', now() from generate_series(201, 1000) n`)
	if n := left(); n < 729 || n > 730 {
		t.Errorf("without the policy, the oldest is %d days old", n)
	}
}

// A walk writes an estimate only if it changes. It doesn't rewrite that of an old stale fork without
// observations, though the program's prior for forks differs from the database's. Nor does it rewrite one
// that was deleted because its last visit was long ago.
func TestWalksWriteWhatIsNew(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	now := time.Now().UTC().Truncate(time.Second)
	refreshed(t, dsn, store, 1e5, "git")
	testenv.Exec(t, store.Pool(), "insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())")
	for _, of := range []struct {
		url              string
		visited, updated int // days ago
	}{{"stale", 11, 10}, {"old", 300, 400}} {
		testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update, is_fork)
			values ('00000000-0000-0000-0000-000000000001', $1, 'git', '{}', true, $2, $3, $4, true)`, of.url, now.AddDate(-4, 0, 0), now, now.AddDate(0, 0, -of.updated))
		testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
			values ($1, 'git', $2, $2, 'successful', 'x')`, of.url, now.AddDate(0, 0, -of.visited))
	}
	sqltest.Keep(t, store)
	const written = "select xmin::text from scheduler_go.freshness order by seen"
	computeMoments(t, store, now)
	if n := len(testenv.Column[string](t, store.Pool(), written)); n != 2 {
		t.Fatalf("%d estimates are written, want 2", n)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
	if err := store.ForgetFreshness(t.Context(), now, time.Minute); err != nil {
		t.Fatal(err)
	}
	before := testenv.Column[string](t, store.Pool(), written)
	if len(before) != 1 {
		t.Fatalf("%d estimates are left, want that of the origin visited 11 days ago", len(before))
	}
	computeMoments(t, store, now)
	if diff := cmp.Diff(before, testenv.Column[string](t, store.Pool(), written)); diff != "" {
		t.Errorf("a walk without news writes estimates, by transaction (-before +after):\n%s", diff)
	}
}

// A program that doesn't know some indexes omits them when it builds candidates. Daemons refuse to run
// without them, and migrate creates them without a rebuild.
func TestMissingIndexesAreBuilt(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Migrate(t, dsn, migrate.Options{Policies: byFreshness})
	testenv.Exec(t, store.Pool(), "drop index scheduler_go.candidates_moment_idx")
	if err := store.CheckPolicies(t.Context(), byFreshness); err == nil {
		t.Error("the daemons go on without the index of moments")
	}
	if report := testenv.Migrate(t, dsn, migrate.Options{Policies: byFreshness}); report.Rebuilt {
		t.Error("candidates were built again")
	}
	for _, path := range []string{"public", "public,scheduler_go"} {
		if err := testenv.OpenLocal(t, dsn+"?options=-csearch_path%3D"+path).CheckPolicies(t.Context(), byFreshness); err != nil {
			t.Errorf("with the search path %s: %v", path, err)
		}
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from pg_indexes where indexname = 'candidates_moment_idx'"); n != 1 {
		t.Error("the index of moments was not built")
	}
}

// An update in the second, or on the day, of a visit may follow it. The database and the program compute
// the same moment: not before that second or day is over, and after a later visit as if without the update.
func TestMomentOfUpdatesAsOldAsTheVisit(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	visited := time.Date(2026, 3, 1, 10, 20, 30, 400_000_000, time.UTC)
	now := visited.AddDate(0, 0, 3)
	refreshed(t, dsn, store, 1, "git") // an update is worth a visit within minutes
	testenv.Exec(t, store.Pool(), "insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())")
	updates := map[string]time.Time{
		"second": visited.Truncate(time.Second), "day": visited.Truncate(24 * time.Hour), "same": visited,
		"before": visited.Add(-time.Second).Truncate(time.Second), "day before": visited.AddDate(0, 0, -1).Truncate(24 * time.Hour),
		"after": visited.Add(time.Microsecond), "old": time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "far": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for url, update := range updates {
		testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
			values ('00000000-0000-0000-0000-000000000001', $1, 'git', '{}', true, $2, $3, $4)`, url, visited.AddDate(-1, 0, 0), now, update)
		testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
			values ($1, 'git', $2, $2, 'successful', 'x')`, url, visited)
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, updated, listed, moment)
			values (hashtextextended('git ' || $1, 0), 5, 500, 60, $2, null, $2, $2::timestamptz + interval '100 days')`, url, visited)
		if ends := testenv.Column[time.Time](t, store.Pool(), "select scheduler_go.update_ends('"+update.Format("2006-01-02T15:04:05.999999Z07:00")+"')")[0]; !ends.Equal(model.UpdateEnds(update)) {
			t.Errorf("%s: the database takes the date to end at %s, the program at %s", url, ends, model.UpdateEnds(update))
		}
	}
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	moment := func(url string) time.Time {
		return testenv.Column[time.Time](t, store.Pool(), "select moment from scheduler_go.candidates where url = '"+url+"'")[0]
	}
	right := make(map[string]time.Time)
	for url := range updates {
		known, err := store.OriginFreshness(t.Context(), []model.OriginKey{{URL: url, VisitType: "git"}})
		if err != nil || len(known) != 1 {
			t.Fatal(len(known), err)
		}
		right[url] = known[0].Moment(now)
	}
	quiet := map[string]bool{"before": true, "day before": true, "old": true}
	for url, update := range updates {
		ends := model.UpdateEnds(update)
		switch got := moment(url); {
		case quiet[url] && got.Before(visited.Add(day/2)):
			t.Errorf("%s: its moment is %s although the visit saw the update", url, got)
		case (url == "second" || url == "day" || url == "same") && got.Sub(right[url]).Abs() > time.Second:
			t.Errorf("%s: its moment is %s, want %s", url, got, right[url])
		case (url == "second" || url == "day" || url == "same") && got.Before(ends):
			t.Errorf("%s: its moment %s is before %s", url, got, ends)
		}
	}
	before := testenv.Column[string](t, store.Pool(), "select xmin::text from scheduler_go.freshness order by origin")
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
	computeMoments(t, store, now)
	if diff := cmp.Diff(before, testenv.Column[string](t, store.Pool(), "select xmin::text from scheduler_go.freshness order by origin")); diff != "" {
		t.Errorf("a walk without news writes estimates (-before +after):\n%s", diff)
	}
	testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_visit = $1, last_successful = $1", now)
	sqltest.Keep(t, store)
	for _, url := range []string{"second", "day", "same"} {
		if got := moment(url); got.Before(now.Add(day / 2)) {
			t.Errorf("%s: after another visit at %s its moment is %s", url, now, got)
		}
	}
}

// The staleness of the origins of a lister with the weight 8 counts eight times: they are visited about twice as often.
// Their visits are worth as much more for the threshold of all, which isn't divided by the weight.
func TestWeightsOfListers(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 100)
	now := time.Now().UTC().Truncate(time.Second)
	testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
		select url, 'git', $1, $1, 'successful', 'x' from listed_origins`, now.Add(-day))
	refreshed(t, dsn, store, 100, "git")
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	wait := func() time.Duration {
		t.Helper()
		return testenv.Column[time.Time](t, store.Pool(), "select min(moment) from scheduler_go.candidates")[0].Sub(now.Add(-day))
	}
	threshold := func() float64 {
		t.Helper()
		counts, err := store.FreshnessCounts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counts["git"].Threshold
	}
	before, all := wait(), threshold()
	var name, instance string
	if err := store.Pool().QueryRow(t.Context(), "select name, instance_name from listers").Scan(&name, &instance); err != nil {
		t.Fatal(err)
	}
	if err := store.SetListerWeight(t.Context(), name, instance, 8); err == nil || !strings.Contains(err.Error(), "has ended yet") {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.listings (lister_id, finished) select id, now() from listers on conflict do nothing")
	if err := store.SetListerWeight(t.Context(), name, instance, 8); err != nil {
		t.Fatal(err)
	}
	computeMoments(t, store, now)
	if part := float64(wait()) / float64(before); part < 0.4 || part > 0.6 {
		t.Errorf("with the weight 8 an origin waits %.2f times as long, want about half", part)
	}
	if got := threshold(); math.Abs(got/all-1) > 1e-6 {
		t.Errorf("the threshold is %g, want that of all origins, %g", got, all)
	}
}

// News that is a hint is as good as its source's hints, which hint_sources counts. The database and the program compute the
// same moment.
func TestHintSourcesHaveTheirQuality(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	visited := time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC)
	now, update := visited.AddDate(0, 0, 3), visited.AddDate(0, 0, 2)
	refreshed(t, dsn, store, 100, "git")
	testenv.Exec(t, store.Pool(), "insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.hint_sources (source, visits, found, first_hint, last_hint)
		values ('good', 4000, 3800, $1, $1), ('bad', 4000, 400, $1, $1), ('new', 0, 0, $1, $1)`, update)
	want := map[string]float64{"good": 0.95, "bad": 0.10, "new": 0.9, "visited": 0.9, "older": 0.9, "unmoved": 0.9, "none": 0.9}
	for url := range want {
		testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
			values ('00000000-0000-0000-0000-000000000001', $1, 'git', '{}', true, $2, $3, $4)`, url, visited.AddDate(-1, 0, 0), now, update)
		testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot)
			values ($1, 'git', $2, $2, 'successful', 'x')`, url, visited)
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.freshness (origin, changes, days, cost, seen, updated, listed, moment)
			values (hashtextextended('git ' || $1, 0), 5, 50, 60, $2, null, $2, $2::timestamptz + interval '100 days')`, url, visited)
		source, at, moved, seen := url, update, true, (*time.Time)(nil)
		switch url {
		case "visited":
			source, seen = "bad", &update
		case "older":
			source, at = "bad", update.Add(-time.Hour)
		case "unmoved":
			source, moved = "bad", false
		case "none":
			continue
		}
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.hints (origin, url, visit_type, source, changed_at, received_at, moved, visited, check_at)
			values (hashtextextended('git ' || $1, 0), $1, 'git', $2, $3, $3, $4, $5, $3)`, url, source, at, moved, seen)
	}
	sqltest.Keep(t, store)
	computeMoments(t, store, now)
	for url, precision := range want {
		known, err := store.OriginFreshness(t.Context(), []model.OriginKey{{URL: url, VisitType: "git"}})
		if err != nil || len(known) != 1 {
			t.Fatal(len(known), err)
		}
		if got := known[0].News.Precision(); math.Abs(got-precision) > 0.01 {
			t.Errorf("%s: the precision is %.3f, want %.2f", url, got, precision)
		}
		if got := testenv.Column[time.Time](t, store.Pool(), "select moment from scheduler_go.candidates where url = '"+url+"'")[0]; got.Sub(known[0].Moment(now)).Abs() > time.Second {
			t.Errorf("%s: moment %s in the database, %s in the program", url, got, known[0].Moment(now))
		}
	}
}
