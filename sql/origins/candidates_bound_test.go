package origins_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
)

// BoundChanges drains changes that no keeper drains.
func TestBoundChangesDrains(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, candidatesOf(t, 2000, 10))
	b, err := store.BoundChanges(t.Context(), 1_000_000, time.Minute)
	if err != nil || b.Drained != 22_000 || b.GivenUp || b.Deleted != 0 {
		t.Errorf("%+v, %v; want 22,000 changes drained", b, err)
	}
	sqltest.CheckCandidates(t, store)
}

// candidatesOf creates a database with listed origins that changed some times since, all undrained.
func candidatesOf(t *testing.T, origins, changes int) (dsn string) {
	t.Helper()
	dsn = testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf(`insert into listers (name, instance_name, current_state, updated) values ('github', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select (select id from listers), 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(1, %d) n`, origins))
	for n := range changes {
		testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf("update listed_origins set last_update = timestamptz '2026-01-01' + %d * interval '1 day'", n))
	}
	return dsn
}

// Beyond the limit, candidates are given up and their changes deleted, while others write and a transaction
// with changed origins is open. Grabs then equal the Python scheduler's. Later changes are right after the
// rebuild.
func TestBoundChangesGivesUp(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	r := seed.Rand(t)
	sqltest.Keep(t, w.store)
	w.change(t, r, 200)
	writer := testenv.Begin(t, w.store.Pool())
	testenv.Exec(t, writer, "update listed_origins set last_update = '2020-02-02' where url like '%1'")
	b, err := w.store.BoundChanges(t.Context(), 10, time.Minute)
	if err != nil || !b.GivenUp || b.Deleted < 11 || b.Drained != 0 {
		t.Errorf("%+v, %v; want candidates given up", b, err)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	same := func(when string) {
		t.Helper()
		for _, policy := range plainPolicies {
			f := w.plain(r, policy)
			theirs, ours := w.sortKeys(t, f, peer.grab(t, f, w.now, 50, true)), w.sortKeys(t, f, w.grab(t, f, 50, true))
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Fatalf("%s, %+v (-peer +ours):\n%s", when, f, diff)
			}
		}
	}
	same("given up")
	w.change(t, r, 30)
	// Without a rebuild, the changes stay few.
	if b, err = w.store.BoundChanges(t.Context(), 1000, time.Minute); err != nil || b.GivenUp || b.Deleted == 0 {
		t.Errorf("again: %+v, %v; want the changes deleted", b, err)
	}
	same("given up again")
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	same("built anew")
}

// Without a daemon of ours, the writers' triggers bound the changes: beyond the limit they give candidates
// up. Changes made then, or by an open transaction, are right after the rebuild.
func TestWritersBoundChanges(t *testing.T) {
	t.Parallel()
	const limit, origins = 1000, 500
	dsn := candidatesOf(t, origins, 0)
	store := testenv.OpenLocal(t, dsn)
	sqltest.Keep(t, store)
	sqltest.CheckCandidates(t, store)
	definition := testenv.Column[string](t, store.Pool(), "select pg_get_functiondef('scheduler_go.note_listed_origin'::regproc)")[0]
	for was, smaller := range map[string]string{"(5000000)": fmt.Sprintf("(%d)", limit), "400000": "50"} {
		if strings.Count(definition, was) != 1 {
			t.Fatalf("the trigger has no limit %s: %s", was, definition)
		}
		definition = strings.Replace(definition, was, smaller, 1)
	}
	testenv.Exec(t, store.Pool(), definition)
	writer := testenv.Begin(t, store.Pool())
	testenv.Exec(t, store.Pool(), "create table of_a_writer as select url from listed_origins where url like '%7'")
	testenv.Exec(t, writer, "update listed_origins set last_update = '2020-02-02' where url in (select url from of_a_writer)")
	const rest = " where url not in (select url from of_a_writer)"
	testenv.Exec(t, store.Pool(), "begin isolation level repeatable read; update listed_origins set last_update = '2021-01-01'"+rest+"; commit")
	for n := range 20 {
		testenv.Exec(t, store.Pool(), fmt.Sprintf("update listed_origins set last_update = timestamptz '2026-01-01' + %d * interval '1 day'", n)+rest)
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.candidate_changes")[0]; n > 2*limit {
		t.Errorf("%d changes are kept, want %d at most", n, 2*limit)
	}
	if phase := testenv.Column[string](t, store.Pool(), "select phase from scheduler_go.candidate_build")[0]; phase != "empty" {
		t.Errorf("candidates are %s, want them given up", phase)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sqltest.Keep(t, store)
	sqltest.CheckCandidates(t, store)
	testenv.Exec(t, store.Pool(), "update listed_origins set enabled = url not like '%3'")
	sqltest.Keep(t, store)
	sqltest.CheckCandidates(t, store)
}

// Rows set aside are deleted after 90 days.
func TestForgetRejected(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason)
		select now() - days * interval '1 day', '', '', '', '' from unnest(array[0, 89, 91]) days;
		insert into scheduler_go.rejected_records (topic, partition, record_offset, kind, detail, rejected_at)
		select '', 0, days, '', '', now() - days * interval '1 day' from unnest(array[0, 89, 91, 400]) days`)
	store := testenv.OpenLocal(t, dsn)
	if n, err := store.Forget(t.Context(), time.Now(), time.Minute); n != 3 || err != nil {
		t.Errorf("%d forgotten, %v; want 3", n, err)
	}
	light, err := store.Figures(t.Context(), time.Now())
	if err != nil || light.Rejected.Events != 2 || light.Rejected.Records != 2 || light.Rejected.NewEvents != 1 || light.Rejected.NewRecords != 1 {
		t.Errorf("%+v are left, %v; want 2 and 2, one of them new", light.Rejected, err)
	}
}
