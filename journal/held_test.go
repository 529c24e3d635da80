package journal

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
)

// A failed visit that timed out on a lane is no failure of the origin. The time-out may be known before the
// record arrives, or after.
func TestHoldBack(t *testing.T) {
	t.Parallel()
	noon := at(0)
	express := []ledger.LanedVisit{{Since: noon.Add(-time.Minute)}}
	later := []ledger.LanedVisit{{Since: noon.Add(2 * time.Hour)}}
	over := &ledger.LastTimeout{Claimed: noon.Add(-time.Minute), TimedOut: noon.Add(500 * time.Millisecond)}
	success := success(0, snapshotA)
	failedAt := func(date time.Time) Visit {
		v := failure(0)
		v.Date = date
		return v
	}
	for name, tc := range map[string]struct {
		visit      Visit
		laned      []ledger.LanedVisit
		over       *ledger.LastTimeout
		back, held bool
	}{
		"on no lane, or the last one":       {visit: failure(0)},
		"on the express lane":               {visit: failure(0), laned: express, back: true, held: true},
		"long before it was sent":           {visit: failure(0), laned: later},
		"by a clock that is late":           {visit: failure(0), laned: []ledger.LanedVisit{{Since: noon.Add(time.Minute)}}, back: true, held: true},
		"of the later of two":               {visit: failure(0), laned: append(later, express...), back: true, held: true},
		"of a try whose time was over":      {visit: failure(0), over: over, back: true},
		"after the try whose time was over": {visit: failure(1), over: over},
		"at its very end":                   {visit: failedAt(over.TimedOut), over: over, back: true},
		"of the next try, right after it":   {visit: failedAt(over.TimedOut.Add(50 * time.Millisecond)), over: over},
		"long before the try that was over": {visit: failure(-1), over: over},
		"of the next try, of three lanes":   {visit: failure(1), laned: express, over: over, back: true, held: true},
		"a success":                         {visit: success, laned: express, over: over},
		"not found":                         {visit: notFound(0), laned: express, over: over},
	} {
		t.Run(name, func(t *testing.T) {
			known := ledger.KnownVisits{Laned: map[model.OriginKey][]ledger.LanedVisit{origin: tc.laned}}
			if tc.over != nil {
				known.TimedOut = map[model.OriginKey][]ledger.LastTimeout{origin: {*tc.over}}
			}
			tally := newTally(noFudge, known)
			if back := tally.holdBack(tc.visit); back != tc.back || (len(tally.held) > 0) != tc.held {
				t.Errorf("held back: %v, to be counted later: %v", back, tally.held)
			}
		})
	}
}

// A held visit counts once, when its try has ended otherwise than by a time-out. A success counts at once.
func TestHeldVisitsCountWhenTheirTryFails(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	execute(t, s.dsn, `insert into scheduler_go.work (task_id, lane_set, lane, state, since, claimed, task_name, args, kwargs, queue, home,
			memory, lister, first, behind, url, visit_type, lane_name, soft_limit, hard_limit, lanes_left)
		select id, 'load-git', 0, 'sent', '2024-01-01', '2024-01-01', 'x', '[]', '{}', 'q', 'q', 0, '', false, 0, 'https://example.org/000' || n, 'git', 'express', 1, 2, 1
		from (select n, ('00000000-0000-0000-0000-00000000000' || n)::uuid as id from generate_series(0, 2) n) w`)
	failed := map[string]any{"status": "failed", "snapshot": nil}
	s.produce(0, visitOf(0, 0, failed), visitOf(1, 0, failed), visitOf(2, 0, nil), visitOf(3, 0, failed))
	s.run(s.options())
	visited := "select url || ' ' || last_visit_status from origin_visit_stats order by 1"
	if diff := cmp.Diff([]string{"https://example.org/0002 successful", "https://example.org/0003 failed"}, table(t, s.dsn, visited)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	// The first visit fails by itself. The second times out, and a replay repeats its failure.
	over := s.outcome("00000000-0000-0000-0000-000000000001")
	over.End.TimedOut, over.End.EventTime = true, float64(at(0).Unix())+0.5
	if err := (settle.Store{Store: s.store}).ApplyOutcomes(t.Context(), []settle.Outcome{s.outcome("00000000-0000-0000-0000-000000000000"), over}); err != nil {
		t.Fatal(err)
	}
	// The next try has ended before the journal's record of this one arrives.
	execute(t, s.dsn, "delete from scheduler_go.work")
	s.produce(0, visitOf(1, 0, failed))
	s.run(s.options())
	if n, _, err := countReleased(t.Context(), s.store, noFudge, maxHeld); err != nil || n > 1 {
		t.Fatal(n, err)
	}
	if n, _, err := countReleased(t.Context(), s.store, noFudge, maxHeld); err != nil || n != 0 {
		t.Errorf("%d count twice, %v", n, err)
	}
	want := []string{"https://example.org/0000 failed", "https://example.org/0002 successful", "https://example.org/0003 failed"}
	if diff := cmp.Diff(want, table(t, s.dsn, visited)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// released is a store with one visit that counts now, and a later try underway.
type released struct {
	Store
	visit   ledger.HeldVisit
	known   ledger.KnownVisits
	changes ledger.VisitChanges
}

func (r *released) ReleasedVisits(context.Context, int) ([]ledger.HeldVisit, error) {
	return []ledger.HeldVisit{r.visit}, nil
}

func (r *released) UpdateVisitStats(_ context.Context, _ []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	r.changes = change(r.known)
	return nil
}

// A later try underway doesn't hold back a visit that counts now.
func TestReleasedVisitsCountBesideTheNextTry(t *testing.T) {
	t.Parallel()
	r := &released{visit: ledger.HeldVisit{OriginKey: origin, Date: at(0)}, known: ledger.KnownVisits{
		Laned:    map[model.OriginKey][]ledger.LanedVisit{origin: {{Since: at(0).Add(-time.Minute)}}},
		TimedOut: map[model.OriginKey][]ledger.LastTimeout{origin: {{Claimed: at(0).Add(-time.Minute), TimedOut: at(0)}}},
	}}
	if n, _, err := countReleased(t.Context(), r, noFudge, 10); n != 1 || err != nil {
		t.Error(n, err)
	}
	if len(r.changes.Stats) != 1 || len(r.changes.Counted) != 1 || len(r.changes.Held) != 0 {
		t.Errorf("%+v", r.changes)
	}
}

// A running client counts held visits.
func TestClientCountsHeldVisits(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	execute(t, s.dsn, `insert into scheduler_go.held_visits values (gen_random_uuid(), 'https://example.org/0000', 'git', '2024-01-01 12:00Z')`)
	o := s.options()
	o.OnEOF = EOFContinue
	stop := s.start(o)
	testenv.Becomes(s.t, "visits that count", 1, func() int { return len(s.stats()) })
	stop()
}

// outcome is the failure of a try.
func (s *stream) outcome(id string) settle.Outcome {
	return settle.Outcome{BackendID: id, Received: at(0), End: &settle.End{Status: model.RunFailed}}
}

// A failed visit is held while its try is underway, even if the ledger doesn't yet have its message as
// sent.
func TestVisitsAreReleasedWithTheirTry(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.held_visits (task_id, url, visit_type, date)
		values ('00000000-0000-0000-0000-000000000001', 'https://example.org', 'git', now())`)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, home, since, task_name, args, kwargs, lane_set, lane, lane_name, lanes_left, memory, lister, first, behind)
		values ('00000000-0000-0000-0000-000000000001', 'q', 'q', now(), 't', '[]', '{}', 'load-git', 0, 'express', 1, 1, '', true, 0)`)
	for _, c := range []struct {
		change string
		want   int
	}{
		{"select", 0},
		{"update scheduler_go.work set state = 'sent'", 0},
		{"update scheduler_go.work set state = 'settled', settled = now()", 1},
		{"delete from scheduler_go.work", 1},
	} {
		testenv.Exec(t, store.Pool(), c.change)
		if released, err := store.ReleasedVisits(t.Context(), 10); len(released) != c.want || err != nil {
			t.Errorf("after %q: %d visits are released, %v; want %d", c.change, len(released), err, c.want)
		}
	}
}
