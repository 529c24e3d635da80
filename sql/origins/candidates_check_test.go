package origins_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/db"
)

// check does one pass over candidates and listed origins, and returns the number of recorded changes.
func check(t *testing.T, store *db.Store) (noted int64) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch', finished = null")
	pages := testenv.Value[int](t, store.Pool(), "select (greatest(pg_relation_size('listed_origins'), pg_relation_size('scheduler_go.candidates')) / 8192)::int")
	for calls := 1; testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.walks where name like 'check of %' and finished is not null") < 2; calls++ {
		n, err := store.CheckCandidates(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if noted += n; calls > pages+1 {
			t.Fatalf("%d calls did not check %d pages", calls, pages)
		}
	}
	return noted
}

// The check finds changes that triggers missed, and drains repair them: grabs then match the tables.
// Pending changes don't count as missed.
func TestCheckFindsWhatTriggersMissed(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	r := seed.Rand(t)
	sqltest.Keep(t, w.store)
	w.change(t, r, 100)
	if n := check(t, w.store); n != 0 {
		t.Fatalf("%d origins that triggers noted count as missed", n)
	}
	sqltest.Keep(t, w.store)
	w.exec(t, "alter table listed_origins disable trigger user; alter table origin_visit_stats disable trigger user")
	w.change(t, r, 300)
	w.exec(t, "alter table listed_origins enable trigger user; alter table origin_visit_stats enable trigger user")
	w.change(t, r, 50) // noted
	wrong := testenv.Value[int](t, w.store.Pool(), `select count(*) from (
		`+differing(sqltest.CandidateColumns)+` where (url, visit_type) not in (select url, visit_type from scheduler_go.candidate_changes)
		union
		`+differing("lister_id, url, visit_type, last_update, first_seen, fork")+` where (url, visit_type) not in (select url, visit_type from scheduler_go.candidate_changes where listed)) c`)
	if n := check(t, w.store); wrong < 20 || n != int64(wrong) {
		t.Errorf("%d origins noted, want the %d that are wrong", n, wrong)
	}
	for i, policy := range plainPolicies {
		f := w.plain(r, policy)
		if diff := cmp.Diff(w.sortKeys(t, f, peer.grab(t, f, w.now, 50, true)), w.sortKeys(t, f, w.grab(t, f, 50, true))); diff != "" {
			t.Errorf("%s, %d (-peer +ours):\n%s", policy, i, diff)
		}
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	if n := check(t, w.store); n != 0 {
		t.Errorf("%d origins noted after they were repaired", n)
	}
}

// A grab marks nothing for a stale candidate: triggers missed the deletion of its lister's row, and another
// lister with the same URL has disabled the origin.
func TestStaleCandidatesMarkNothing(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into listers (id, name, instance_name, current_state, updated)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 2) n`)
	testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select id, 'https://example.org', 'git', '{}', instance_name = '1', now() from listers`)
	sqltest.Keep(t, store)
	testenv.Exec(t, store.Pool(), "set session_replication_role = replica; delete from listed_origins where enabled; reset session_replication_role")
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		visits, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 10, false)
		if len(visits) > 0 {
			t.Errorf("grabbed: %v", visits)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from origin_visit_stats"); n > 0 {
		t.Error("the origin is marked as scheduled")
	}
}

// The check does nothing while many changes are pending, which it would take for missed ones, or during a
// build.
func TestCheckWaits(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	w.exec(t, "alter table listed_origins disable trigger user; update listed_origins set last_update = '2020-01-01'")
	none := func() {
		t.Helper()
		for range 3 {
			if n, err := w.store.CheckCandidates(t.Context(), time.Minute); n != 0 || err != nil {
				t.Errorf("%d noted, %v", n, err)
			}
		}
	}
	w.exec(t, "insert into scheduler_go.candidate_changes (visit_type, url) select 'x', n::text from generate_series(1, 5000) n")
	none()
	w.exec(t, "delete from scheduler_go.candidate_changes; update scheduler_go.candidate_build set phase = 'empty'")
	none()
	w.exec(t, "update scheduler_go.candidate_build set phase = 'ready'")
	if n := check(t, w.store); n == 0 {
		t.Error("nothing is noted when it can go on")
	}
}

// The log of a build has its progress and the expected time left, at most once a period, and its end.
// Without a build there is no entry.
func TestBuildLog(t *testing.T) {
	t.Parallel()
	var told candidates.BuildLog
	began := time.Unix(1_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		phase string
		rows  int64
		want  string
	}{
		{0, "ready", 100, ""},
		{0, "empty", 0, ""},
		{time.Minute, "rows", 100, `level=INFO msg="building candidates" phase=rows rows=100 of_about=1000 copied_in_about=9m0s`},
		{time.Minute + time.Second, "rows", 200, ""},
		{2 * time.Minute, "rows", 500, `level=INFO msg="building candidates" phase=rows rows=500 of_about=1000 copied_in_about=2m0s`},
		{3 * time.Minute, "indexes", 1100, `level=INFO msg="building candidates" phase=indexes rows=1100 of_about=1000`},
		{200 * time.Second, "ready", 1100, `level=INFO msg="candidates are built" rows=1100 took=3m20s`},
		{time.Hour, "ready", 1100, ""},
	} {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		told.Report(log, candidates.Build{Phase: step.phase, Rows: step.rows, Origins: 1000}, began.Add(step.after), time.Minute)
		if got := strings.TrimSpace(text.String()); got != step.want {
			t.Errorf("after %s, %s: %q, want %q", step.after, step.phase, got, step.want)
		}
	}
}
