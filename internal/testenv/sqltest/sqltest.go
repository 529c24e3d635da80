// Package sqltest has functions for the tests of several packages of the store.
package sqltest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Keep drains all committed changes of candidates.
func Keep(t testing.TB, store *db.Store) {
	t.Helper()
	for range 1000 {
		kept, err := store.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !kept.More {
			return
		}
	}
	t.Fatal("the drain doesn't end")
}

// HoldSnapshot holds a snapshot of the database until the test ends.
func HoldSnapshot(t testing.TB, dsn string) {
	t.Helper()
	snapshot, err := testenv.Connect(t, dsn).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, snapshot, "select count(*) from scheduler_go.work")
}

// CandidateColumns are the columns of candidates without hints.
const CandidateColumns = "lister_id, url, visit_type, due, last_update, first_seen, last_scheduled, lag, queue_position, loaded, successful, fork, moment"

// CheckCandidates fails unless candidates equal the view of the Python scheduler's tables, each once, and are
// counted.
func CheckCandidates(t testing.TB, store *db.Store) {
	t.Helper()
	var wrong, missing, uncounted, pending int
	err := store.Pool().QueryRow(t.Context(), `select
		(select count(*) from (select `+CandidateColumns+` from scheduler_go.candidates
		  except all select `+CandidateColumns+` from scheduler_go.candidates_now) x),
		(select count(*) from (select `+CandidateColumns+` from scheduler_go.candidates_now
		  except all select `+CandidateColumns+` from scheduler_go.candidates) x),
		(select count(*) from (
		  select visit_type, count(*) - count(last_update), count(last_update)
		  from scheduler_go.candidates group by visit_type
		  except select * from scheduler_go.candidate_groups) x),
		(select count(*) from scheduler_go.candidate_changes)`).Scan(&wrong, &missing, &uncounted, &pending)
	if err != nil {
		t.Fatal(err)
	}
	if wrong+missing+uncounted+pending > 0 {
		t.Fatalf("%d candidates are wrong, %d missing, the counts of %d visit types are wrong, %d changes are pending",
			wrong, missing, uncounted, pending)
	}
}

// ListN lists origins of a lister, numbered from 1.
func ListN(t testing.TB, store *db.Store, n int) {
	t.Helper()
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())`,
		fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(1, %d) n`, n),
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
}

// BlocksOf returns the number of blocks read of a table of ours and its indexes.
func BlocksOf(t testing.TB, store *db.Store, table string) int {
	t.Helper()
	testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
	return testenv.Value[int](t, store.Pool(), `select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read from pg_statio_all_tables where schemaname in ('scheduler_go', 'public') and relname = $1`, table)
}
