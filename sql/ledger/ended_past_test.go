package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// sums returns a type's counts and seconds by source, status, exception and bucket, from minutes and past
// together.
func sums(t *testing.T, dsn, span string) []string {
	t.Helper()
	return testenv.Column[string](t, testenv.Connect(t, dsn), `select concat_ws(' ', source, type, status, exception, bucket, sum(pieces)) from (
		select source, type, status, exception, bucket, pieces from scheduler_go.ended
		union all
		select p.source, p.type, p.status, p.exception, b.bucket, b.pieces from scheduler_go.ended_past p, unnest(p.buckets, p.counts) b (bucket, pieces) where p.span = '`+span+`') e
		group by source, type, status, exception, bucket
		union all
		select concat_ws(' ', source, type, status, exception, sum(seconds), 's') from (
			select source, type, status, exception, seconds from scheduler_go.ended
			union all
			select source, type, status, exception, seconds from scheduler_go.ended_past where span = '`+span+`') e
		group by source, type, status, exception
		order by 1`)
}

// Ends move from minutes to hours and days once they are three hours old. Each moves once, for several
// processes at any time. None is lost, even if it arrives late for an hour that has moved, as from a clock
// that jumped.
func TestEndedIsMovedOnce(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	stores := []*db.Store{testenv.OpenLocal(t, dsn), testenv.OpenLocal(t, dsn), testenv.OpenLocal(t, dsn)}
	conn := testenv.Connect(t, dsn)
	const ends = `insert into scheduler_go.ended (minute, source, type, status, exception, bucket, part, pieces, seconds)
		select date_trunc('minute', now()) - n * interval '7 minutes' - %s, source, 't', status, exception, n %% 5 - 1, part, n, case n %% 5 when 0 then 0 else n end
		from generate_series(0, 100) n, (values ('worker', 'eventful', ''), ('worker', 'failed', 'OSError'), ('wait', '', ''), ('journal', 'failed', '')) v (source, status, exception), generate_series(0, 1) part`
	move := func() {
		t.Helper()
		var all errgroup.Group
		for _, s := range stores {
			all.Go(func() error { _, err := s.MoveEnded(t.Context(), time.Minute); return err })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for i, ago := range []string{"interval '0'", "interval '2 days'", "interval '20 hours'", "interval '2 days'"} { // the last: minutes of hours that moved before
		testenv.Exec(t, conn, fmt.Sprintf(ends, ago))
		hours, days := sums(t, dsn, "hour"), sums(t, dsn, "day")
		for range 2 {
			move()
		}
		if diff := cmp.Diff(hours, sums(t, dsn, "hour")); diff != "" || len(hours) != 24 {
			t.Fatalf("%d: hours changed:\n%s", i, diff)
		}
		if diff := cmp.Diff(days, sums(t, dsn, "day")); diff != "" {
			t.Fatalf("%d: days changed:\n%s", i, diff)
		}
		if i == 0 {
			if diff := cmp.Diff(hours, days); diff != "" {
				t.Fatalf("hours and days differ:\n%s", diff)
			}
		}
	}
	for what, query := range map[string]string{
		"minutes that should have been moved": "select count(*) from scheduler_go.ended where minute < date_trunc('hour', now() - interval '3 hours')",
		"minutes moved too early":             "select 0 + (count(*) = 0)::int from scheduler_go.ended where minute > now() - interval '3 hours'",
		"rows that begin within their time":   "select count(*) from scheduler_go.ended_past where since <> date_trunc(span, since, 'UTC')",
		"rows whose buckets don't add up":     "select count(*) from scheduler_go.ended_past where pieces <> (select sum(n) from unnest(counts) n) or buckets <> (select array_agg(distinct b order by b) from unnest(buckets) b)",
		"errors without a first and a last":   "select count(*) from (values ('t', 'OSError')) v (t, e) left join scheduler_go.errors r on r.type = v.t and r.exception = v.e where (r.first < r.last and r.first < now() - interval '2 days' and r.last > now() - interval '5 hours') is not true",
	} {
		if n := testenv.Value[int](t, conn, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// An hour or a day stores the most frequent exceptions of each type by name, and no more. A class with a
// name keeps it.
func TestExceptionsThatAreKeptByName(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	s, conn := testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	const hour = "date_trunc('day', now(), 'UTC') - interval '2 days'"
	add := func(at, prefix string) {
		t.Helper()
		testenv.Exec(t, conn, fmt.Sprintf(`insert into scheduler_go.ended select %s, 'worker', t, 'failed', '%s' || n, -1, 0, n, 0 from generate_series(1, 300) n, unnest(array['t', 'u']) t`, at, prefix))
		if _, err := s.MoveEnded(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	add(hour, "A")
	add(hour+" + interval '5 minutes'", "B")
	add(hour+" + interval '1 hour'", "C")
	got := testenv.Column[string](t, conn, `select concat_ws(' ', span, to_char(since at time zone 'UTC', 'HH24'), type, count(*), count(*) filter (where exception like 'A%'), count(*) filter (where exception like 'C%'), sum(pieces), sum(pieces) filter (where exception = '(other)'))
		from scheduler_go.ended_past group by span, since, type order by 1`)
	const all, named = 300 * 301 / 2, (281 + 300) * 20 / 2
	var want []string
	for _, typ := range []string{"t", "u"} {
		want = append(want, fmt.Sprintf("day 00 %s 21 20 0 %d %d", typ, 3*all, 3*all-named))
	}
	for _, typ := range []string{"t", "u"} {
		want = append(want, fmt.Sprintf("hour 00 %s 21 20 0 %d %d", typ, 2*all, 2*all-named))
	}
	for _, typ := range []string{"t", "u"} {
		want = append(want, fmt.Sprintf("hour 01 %s 21 0 20 %d %d", typ, all, all-named))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := testenv.Value[int](t, conn, "select max(n) from (select count(*) n from scheduler_go.errors group by type) e"); n != 200 {
		t.Errorf("%d classes of a type", n)
	}
}

// Hours are deleted after 30 days, days and exceptions after two years.
func TestPastIsForgotten(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	s, conn := testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into scheduler_go.ended select date_trunc('hour', now()) - d * interval '1 day', 'worker', 't', 'failed', 'E' || d, -1, 0, 1, 0 from unnest(array[1, 29, 31, 729, 731]) d`)
	if hours, err := s.MoveEnded(t.Context(), time.Minute); err != nil || hours != 5 {
		t.Fatal(hours, err)
	}
	got := testenv.Column[string](t, conn, "select span || ' ' || exception from scheduler_go.ended_past union all select 'error ' || exception from scheduler_go.errors order by 1")
	if diff := cmp.Diff([]string{"day E1", "day E29", "day E31", "day E729", "error E1", "error E29", "error E31", "error E729", "hour E1", "hour E29"}, got); diff != "" {
		t.Error(diff)
	}
}

// Sums over a range come from minutes and from hours or days, in steps.
func TestPastIsRead(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	s, conn := testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into scheduler_go.ended select date_trunc('minute', now()) - n * interval '1 hour', source, type, status, exception, bucket, 0, 10, 20
		from generate_series(1, 50) n, (values ('worker', 't', 'eventful', '', 9), ('worker', 't', 'failed', 'OSError', -1), ('wait', 't', '', '', 3), ('worker', 'u', 'failed', 'KeyError', 2), ('journal', 'git', 'failed', '', -1)) v (source, type, status, exception, bucket)`)
	if _, err := s.MoveEnded(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	now := testenv.Value[time.Time](t, conn, "select now()")
	for _, tc := range []struct {
		past ledger.Past
		want int64 // hours of 10
	}{
		{ledger.Past{Since: now.Add(-150 * time.Minute), Step: 5 * time.Minute}, 2},
		{ledger.Past{Span: "hour", Since: now.Add(-31 * time.Hour).Truncate(time.Hour), Step: 12 * time.Hour}, 31},
		{ledger.Past{Span: "day", Since: now.Add(-700 * 24 * time.Hour).Truncate(24 * time.Hour), Step: 14 * 24 * time.Hour}, 50},
	} {
		first, last := tc.past.Steps(now)
		steps, err := s.EndedSteps(t.Context(), tc.past)
		if err != nil {
			t.Fatal(err)
		}
		sum := map[string]int64{}
		for _, step := range steps {
			sum[step.Source+" "+step.Type+" "+step.Status] += step.Pieces
			if step.Step < first || step.Step > last {
				t.Errorf("%+v is not in %d to %d", step, first, last)
			}
		}
		n := 10 * tc.want
		if diff := cmp.Diff(map[string]int64{"worker t eventful": n, "worker t failed": n, "worker u failed": n, "journal git failed": n}, sum); diff != "" {
			t.Errorf("%+v: %s", tc.past, diff)
		}
		cells, err := s.EndedOf(t.Context(), tc.past, ledger.EndedKey{Source: ledger.EndedByWorker, Type: "t"}, ledger.EndedKey{Source: ledger.EndedByJournal, Type: "git"}, ledger.EndedKey{Source: ledger.EndedWait, Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		sum, seconds := map[string]int64{}, 0.
		for _, c := range cells {
			sum[fmt.Sprintf("%s %s %s %d", c.Source, c.Status, c.Exception, c.Bucket)] += c.Pieces
			if c.Status == "eventful" {
				seconds += c.Seconds
			}
			if c.Step < first || c.Step > last {
				t.Errorf("%+v is not in %d to %d", c, first, last)
			}
		}
		if diff := cmp.Diff(map[string]int64{"worker eventful  9": n, "worker failed OSError -1": n, "journal failed  -1": n, "wait   3": n}, sum); diff != "" || seconds != float64(2*n) {
			t.Errorf("%+v: %g seconds, %s", tc.past, seconds, diff)
		}
		failures, err := s.FailureSteps(t.Context(), tc.past)
		if err != nil {
			t.Fatal(err)
		}
		sum = map[string]int64{}
		for _, f := range failures {
			sum[f.Source+" "+f.Type+" "+f.Exception] += f.Pieces
		}
		if diff := cmp.Diff(map[string]int64{"worker t OSError": n, "worker u KeyError": n, "journal git ": n}, sum); diff != "" {
			t.Errorf("%+v: %s", tc.past, diff)
		}
	}
}
