package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

var visitDay = time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)

func keysOf(n int) []model.OriginKey {
	keys := make([]model.OriginKey, n)
	for i := range keys {
		keys[i] = model.OriginKey{URL: fmt.Sprintf("https://example.org/%03d", i), VisitType: "git"}
	}
	return keys
}

// countVisit adds a visit to each origin, counted in SuccessiveVisits.
func countVisit(keys []model.OriginKey) func(ledger.KnownVisits) ledger.VisitChanges {
	return func(known ledger.KnownVisits) (changes ledger.VisitChanges) {
		stats := make(map[model.OriginKey]model.VisitStats)
		for _, s := range known.Stats {
			stats[model.OriginKey{URL: s.URL, VisitType: s.VisitType}] = s
		}
		for _, key := range keys {
			s, ok := stats[key]
			if !ok {
				s = model.VisitStats{URL: key.URL, VisitType: key.VisitType, NextPositionOffset: 4}
			}
			if s.LastVisit == nil {
				s.SuccessiveVisits = 0
			}
			s.SuccessiveVisits++
			s.LastVisit, s.LastVisitStatus, s.NextVisitQueuePosition = &visitDay, model.VisitFailed, new(int64)
			changes.Stats = append(changes.Stats, &s)
		}
		return changes
	}
}

// Written stats are read back, column by column. A column without a value stays null.
func TestVisitStatsAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	keys := keysOf(2)
	position, successful := int64(1<<40), visitDay.Add(-time.Hour)
	want := []model.VisitStats{
		{
			URL: keys[0].URL, VisitType: "git", LastVisit: &visitDay, LastVisitStatus: model.VisitSuccessful,
			LastSuccessful: &successful, LastSnapshot: []byte("snap"), NextVisitQueuePosition: &position,
			NextPositionOffset: 7, SuccessiveVisits: 3,
		},
		{
			URL: keys[1].URL, VisitType: "git", LastVisit: &visitDay, LastVisitStatus: model.VisitNotFound,
			NextVisitQueuePosition: &position, NextPositionOffset: 4, SuccessiveVisits: 1,
		},
	}
	failures := map[model.OriginKey]ledger.VisitFailure{keys[1]: {Date: visitDay, InARow: 1}}
	for range 2 { // an insert, then an update
		err := store.UpdateVisitStats(t.Context(), keys, func(ledger.KnownVisits) ledger.VisitChanges {
			return ledger.VisitChanges{Stats: []*model.VisitStats{&want[0], &want[1]}, LastFailures: failures}
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []model.VisitStats
		err = store.UpdateVisitStats(t.Context(), keys, func(known ledger.KnownVisits) ledger.VisitChanges {
			got = slices.Clone(known.Stats)
			if diff := cmp.Diff(failures, known.LastFailures); diff != "" {
				t.Errorf("last failures (-written +read):\n%s", diff)
			}
			return ledger.VisitChanges{}
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
		want[0].SuccessiveVisits++
		want[1].LastVisitStatus = model.VisitFailed
		failures[keys[1]] = ledger.VisitFailure{Date: visitDay.Add(time.Hour), InARow: 2}
	}
}

// Visits move the candidates of their origins, with rows and without, at once. Beside a drain, during a build, and with
// many pending changes, they record the origins for a drain instead. So they do with candidates that
// PostgreSQL refuses. Other changes of origins in the transaction are always left to a drain.
func TestVisitsMoveCandidates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		options             string // of the connections that write visits
		disabled            bool
		noted               int // of three origins
	}{
		{name: "alone"},
		{name: "one snapshot", options: "?options=-c%20default_transaction_isolation%3Drepeatable%5C%20read", noted: 3},
		{name: "disabled", disabled: true, noted: 1},
		{name: "beside a drain", before: "select pg_advisory_lock(hashtextextended('swh-scheduler candidates', 0))", after: "select pg_advisory_unlock_all()", noted: 3},
		{name: "during a build", before: "update scheduler_go.candidate_build set phase = 'indexes'", after: "update scheduler_go.candidate_build set phase = 'ready'", noted: 3},
		{name: "many changes", before: "insert into scheduler_go.candidate_changes (visit_type, url) select 'x', n::text from generate_series(1, 5000) n",
			after: "delete from scheduler_go.candidate_changes where visit_type = 'x'", noted: 3},
		{name: "fewer changes", before: "insert into scheduler_go.candidate_changes (visit_type, url) select 'x', n::text from generate_series(1, 4999) n",
			after: "delete from scheduler_go.candidate_changes where visit_type = 'x'"},
		{name: "refused", before: `create or replace function refuse() returns trigger language plpgsql as $$ begin raise interval_field_overflow; end $$;
			create trigger refuse before update on scheduler_go.candidates for each row when (new.url like '%/002') execute function refuse()`,
			after: "drop trigger refuse on scheduler_go.candidates", noted: 3},
		{name: "freshness", before: `update scheduler_go.candidate_build set by_freshness = true;
			insert into scheduler_go.freshness_control (visit_type, longest, cost, changes, days, threshold, applied) values ('git', 1e7, 60, 1, 10, 1, 1) on conflict do nothing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Database(t)
			store, other := testenv.OpenLocal(t, dsn+c.options), testenv.Connect(t, dsn)
			sqltest.ListN(t, store, 3)
			testenv.Exec(t, other, "update listed_origins set url = 'https://example.org/00' || right(url, 1), last_update = '2024-01-01'")
			sqltest.Keep(t, store)
			exec := func(statement string) {
				t.Helper()
				if statement != "" {
					testenv.Exec(t, other, statement)
				}
			}
			keys := append(keysOf(4)[1:], model.OriginKey{URL: "https://example.org/001", VisitType: "hg"}) // the last is not listed
			for _, name := range []string{"first visits", "second visits"} {
				exec(c.before)
				successful, snapshot := visitDay, []byte("snap")
				if err := store.UpdateVisitStats(t.Context(), keys, func(known ledger.KnownVisits) ledger.VisitChanges {
					changes := countVisit(keys)(known)
					changes.Stats[1].LastSuccessful, changes.Stats[1].LastSnapshot, changes.Stats[1].LastVisitStatus = &successful, snapshot, model.VisitSuccessful
					if c.disabled {
						changes.DisabledURLs = []string{keys[0].URL}
					}
					return changes
				}); err != nil {
					t.Fatal(err)
				}
				noted := testenv.Value[int](t, other, "select count(*) from scheduler_go.candidate_changes where url like 'https:%' and visit_type = 'git'")
				exec(c.after)
				if noted != c.noted && !(c.disabled && name == "second visits") {
					t.Errorf("%s: %d origins are left to a drain, want %d", name, noted, c.noted)
				}
				if c.noted > 0 {
					sqltest.Keep(t, store)
				}
				sqltest.CheckCandidates(t, store)
			}
			if n := testenv.Value[int](t, other, "select count(*) from scheduler_go.candidates where loaded and successful"); n != 1 {
				t.Errorf("%d candidates have the success", n)
			}
		})
	}
}

// Another process inserts a row between the read and the insert. The transaction is retried with that row,
// which keeps last_scheduled.
func TestVisitStatsAppearMeanwhile(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	keys := keysOf(3)
	count := countVisit(keys)
	calls := 0
	err := store.UpdateVisitStats(t.Context(), keys, func(known ledger.KnownVisits) ledger.VisitChanges {
		if calls++; calls == 1 {
			if _, err := store.Pool().Exec(t.Context(),
				"insert into origin_visit_stats (url, visit_type, last_scheduled) values ($1, 'git', '2024-01-01 00:00+00')", keys[1].URL); err != nil {
				t.Error(err)
			}
		}
		return count(known)
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("the transaction was tried %d times, want 2", calls)
	}
	got := testenv.Column[string](t, store.Pool(), "select concat_ws(' ', successive_visits, extract(year from last_scheduled)) from origin_visit_stats order by url")
	if diff := cmp.Diff([]string{"1", "1 2024", "1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Members that update overlapping origins concurrently lose no update, beside a daemon that writes
// last_scheduled in an order of its own.
func TestVisitStatsUnderConcurrency(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	const origins, members, rounds = 40, 3, 15
	group, ctx := errgroup.WithContext(t.Context())
	for n := range members {
		random := rand.New(rand.NewPCG(seed.Of(t), uint64(n)))
		group.Go(func() error {
			for range rounds {
				keys := keysOf(origins)
				random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				if err := store.UpdateVisitStats(ctx, keys, countVisit(keys)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	random := seed.Rand(t)
	group.Go(func() error {
		for range rounds {
			urls := make([]string, origins)
			for i, key := range keysOf(origins) {
				urls[i] = key.URL
			}
			random.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
			// A deadlock with a member may abort this statement.
			_, err := store.Pool().Exec(ctx, `insert into origin_visit_stats (url, visit_type, last_scheduled)
				select unnest($1::text[]), 'git', now() on conflict (url, visit_type) do update set last_scheduled = now()`, urls)
			if err != nil && !strings.Contains(err.Error(), "deadlock detected") {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, count := range testenv.Column[int32](t, store.Pool(), "select successive_visits from origin_visit_stats") {
		if count != members*rounds {
			t.Errorf("%d visits counted, want %d", count, members*rounds)
		}
	}
}

// Disabling an origin covers all listers and visit types, and changes no other column.
func TestOriginsAreDisabled(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `
		insert into listers (name, instance_name, current_state, updated) values ('a', 'a', '{}', now()), ('b', 'b', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select id, url, visit_type, '{"x": 1}', true, '2024-01-01 00:00+00'
		from listers, unnest(array['https://gone.example', 'https://here.example']) url, unnest(array['git', 'hg']) visit_type`)
	err := store.UpdateVisitStats(t.Context(), keysOf(1), func(ledger.KnownVisits) ledger.VisitChanges {
		return ledger.VisitChanges{DisabledURLs: []string{"https://gone.example", "https://never.listed.example"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := testenv.Column[string](t, store.Pool(), `select concat_ws(' ', url, enabled, extra_loader_arguments, extract(year from last_seen), count(*))
		from listed_origins group by url, enabled, extra_loader_arguments, last_seen order by url`)
	want := []string{`https://gone.example f {"x": 1} 2024 4`, `https://here.example t {"x": 1} 2024 4`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A refused value gives another error type than other failures, and rolls everything back.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for name, url := range map[string]string{"a NUL": "a\x00b", "not UTF-8": "a\xffb"} {
		keys := []model.OriginKey{{URL: url, VisitType: "git"}}
		err := store.UpdateVisitStats(t.Context(), keys, countVisit(keys))
		if _, refused := errors.AsType[*postgres.RefusedError](err); !refused {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from origin_visit_stats")[0]; n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A refused batch is halved until the refused element is alone. Another error ends the bisection.
func TestBisect(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for name, c := range map[string]struct {
		bad, broken []int
		want        string
	}{
		"all good":       {nil, nil, "[0-9] []"},
		"one bad":        {[]int{3}, nil, "[0-2 2 4-9] [3]"},
		"first and last": {[]int{0, 8}, nil, "[1 2-4 4-6 6 7] [0 8]"},
		"broken":         {[]int{1}, []int{3}, "[0] [1] other"},
	} {
		var written, aside []string
		err := bulk.Bisect(0, 9, func(first, end int) error {
			for i := first; i < end; i++ {
				if slices.Contains(c.bad, i) {
					return new(postgres.RefusedError)
				}
			}
			for i := first; i < end; i++ {
				if slices.Contains(c.broken, i) {
					return other
				}
			}
			text := fmt.Sprint(first)
			if end > first+1 {
				text += fmt.Sprint("-", end)
			}
			written = append(written, text)
			return nil
		}, func(i int, _ *postgres.RefusedError) { aside = append(aside, fmt.Sprint(i)) })
		got := fmt.Sprint(written, " ", aside)
		if err != nil {
			got += " " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The latest 10,000 rejected records are stored, each once.
func TestRejectedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for part := range 3 {
		records := make([]db.RejectedRecord, 4000)
		for i := range records {
			records[i] = db.RejectedRecord{Topic: "topic", Partition: 1, Offset: int64(part*4000 + i), Kind: "malformed", Detail: "why"}
		}
		if err := store.RejectRecords(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	got := testenv.Column[string](t, store.Pool(), "select concat_ws(' ', count(*), min(record_offset), max(record_offset)) from scheduler_go.rejected_records")
	if want := "10000 2000 11999"; got[0] != want {
		t.Errorf("count, first, last: %s; want %s", got[0], want)
	}
	again := []db.RejectedRecord{{Topic: "topic", Partition: 1, Offset: 11999, Kind: "malformed", Detail: "again"}}
	if err := store.RejectRecords(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if got := testenv.Column[string](t, store.Pool(), "select detail from scheduler_go.rejected_records where record_offset = 11999"); !slices.Equal(got, []string{"why"}) {
		t.Errorf("a record that came again: %v", got)
	}
}
