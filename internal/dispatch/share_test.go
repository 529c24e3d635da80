package dispatch_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// sharing is a queue of groups on a real database, with a clock of its own; work is
// claimed pass by pass and ends when told to.
type sharing struct {
	*bench
	t       *testing.T
	q       dispatch.SharedQueue
	now     time.Time
	waiting map[string]int // work there is, by group; -1 is no end of it
	visits  bool           // what waits is visits, otherwise tasks
	sent    map[string][]uuid.UUID
}

func newSharing(t *testing.T, weights map[string]float64, otherwise float64) *sharing {
	return &sharing{
		bench: newBench(t), t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		q: dispatch.SharedQueue{Name: "q", Shares: model.Shares{
			By: model.ShareByLister, Weights: weights, Default: otherwise, HalfLife: time.Hour,
		}},
		waiting: make(map[string]int), sent: make(map[string][]uuid.UUID),
	}
}

// pass claims up to free messages, a second later, and returns the number of each group.
func (s *sharing) pass(free int) map[string]int {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	got, err := s.claim(free)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func (s *sharing) claim(free int) (map[string]int, error) {
	got := make(map[string]int)
	var waiting []string
	for group, n := range s.waiting {
		if n != 0 {
			waiting = append(waiting, group)
		}
	}
	return got, s.store.InTx(s.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockQueues(ctx, s.q.Name); err != nil {
			return err
		}
		d, err := dispatch.Divide(ctx, tx, s.q, s.now, free, dispatch.WaitingGroups{Groups: waiting, Visits: s.visits})
		if err != nil {
			return err
		}
		for asks := d.Next(); asks != nil; asks = d.Next() {
			given := make([]int, len(asks))
			var rows []ledger.Work
			for i, ask := range asks {
				if given[i] = ask.Count; s.waiting[ask.Name] >= 0 {
					given[i] = min(ask.Count, s.waiting[ask.Name])
					s.waiting[ask.Name] -= given[i]
				}
				for range given[i] {
					id := uuid.New()
					s.sent[ask.Name] = append(s.sent[ask.Name], id)
					rows = append(rows, ledger.Work{
						TaskID: id, Queue: s.q.Name, Home: s.q.Name, TaskName: "swh.test", Args: []byte("[]"), Kwargs: []byte("{}"), Claimed: s.now,
						Share: ask.Share(),
					})
				}
				got[ask.Name] += given[i]
			}
			if err := tx.AddWork(ctx, rows); err != nil {
				return err
			}
			d.RecordClaimed(given)
		}
		return d.Save(ctx, tx)
	})
}

// end ends all of a group's work in flight, after a number of seconds each.
func (s *sharing) end(group string, seconds float64) {
	s.t.Helper()
	var outcomes []settle.Outcome
	for _, id := range s.sent[group] {
		runtime := time.Duration(seconds * float64(time.Second))
		outcomes = append(outcomes, settle.Outcome{BackendID: id.String(), Received: s.now, Runtime: &runtime})
	}
	delete(s.sent, group)
	if err := (settle.Store{Store: s.store}).ApplyOutcomes(s.t.Context(), outcomes); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sharing) want(got map[string]int, want map[string]int, off int) {
	s.t.Helper()
	for group, n := range want {
		if d := got[group] - n; d > off || d < -off {
			s.t.Errorf("got %v, want %v, each within %d", got, want, off)
			return
		}
	}
}

// With weights 30, 50 and 20, the shares are these while all have work. Once the third has none, the others get
// 37.5 and 62.5 %. When it returns, it gets its share without extra slots.
func TestDivisionGivesAnIdleGroupsPartToTheOthers(t *testing.T) {
	t.Parallel()
	s := newSharing(t, map[string]float64{"a": 30, "b": 50}, 20)
	s.waiting = map[string]int{"a": -1, "b": -1, "c": -1}
	endAll := func() {
		for group := range s.waiting {
			s.end(group, 1)
		}
	}
	s.want(s.pass(1000), map[string]int{"a": 300, "b": 500, "c": 200}, 0)
	endAll()
	s.waiting["c"] = 0
	for range 3 {
		s.want(s.pass(1000), map[string]int{"a": 375, "b": 625, "c": 0}, 1)
		endAll()
	}
	s.waiting["c"] = 7 // less than its part: what it can't use goes to the others at once
	s.want(s.pass(1000), map[string]int{"a": 372, "b": 621, "c": 7}, 3)
	endAll()
	s.waiting["c"] = -1
	for range 3 {
		s.want(s.pass(1000), map[string]int{"a": 300, "b": 500, "c": 200}, 3)
		endAll()
	}
}

// Visits and tasks can share a queue, and a claim reads one kind. It has no effect on the groups of the other
// kind: they keep their credit, and a group that returns gets no extra slots.
func TestClaimsOfTasksAndVisitsOnOneQueue(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	for range 3 {
		s.visits, s.waiting = true, map[string]int{"visited": -1}
		s.pass(100)
		s.visits, s.waiting = false, map[string]int{"tasks": -1}
		s.pass(100)
	}
	s.visits, s.waiting = true, map[string]int{"visited": -1, "back": -1}
	s.want(s.pass(100), map[string]int{"visited": 50, "back": 50}, 1)
	s.visits, s.waiting = false, map[string]int{"tasks": -1, "visited": -1, "back again": -1}
	s.want(s.pass(90), map[string]int{"tasks": 45, "visited": 0, "back again": 45}, 1)
}

// With one slot a pass, a group with a tenth of the share still gets it: the loads are stored as fractions, for
// any process.
func TestDivisionKeepsFractions(t *testing.T) {
	t.Parallel()
	s := newSharing(t, map[string]float64{"small": 1, "large": 9}, 1)
	s.waiting = map[string]int{"small": -1, "large": -1}
	got := make(map[string]int)
	for range 200 {
		for group, n := range s.pass(1) {
			got[group] += n
			s.end(group, 1)
		}
	}
	s.want(got, map[string]int{"small": 20, "large": 180}, 1)
}

// A group gains nothing by slow work: neither after its end, nor while it runs, nor by leaving and returning.
func TestSlowWorkIsCharged(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.waiting = map[string]int{"slow": -1, "quick": -1}
	got, used := make(map[string]int), make(map[string]float64)
	takes := map[string]float64{"slow": 20, "quick": 1}
	for range 60 {
		for group, n := range s.pass(10) {
			got[group] += n
			used[group] += float64(n) * takes[group]
			s.end(group, takes[group])
		}
	}
	part := used["slow"] / (used["slow"] + used["quick"])
	// The first pass could not know; what it used too much is paid back.
	if math.Abs(part-0.5) > 0.05 {
		t.Errorf("slow work got %.1f %% of the time (%v pieces), want half", 100*part, got)
	}

	// What runs now counts with the time since it began.
	s = newSharing(t, nil, 1)
	s.waiting = map[string]int{"slow": -1, "quick": -1}
	first := s.pass(20)
	s.want(first, map[string]int{"slow": 10, "quick": 10}, 0)
	var starts []settle.Outcome
	for _, id := range s.sent["slow"] {
		starts = append(starts, settle.Outcome{BackendID: id.String(), Received: s.now, Start: &settle.Start{EventTime: float64(s.now.Unix())}})
	}
	if err := (settle.Store{Store: s.store}).ApplyOutcomes(t.Context(), starts); err != nil {
		t.Fatal(err)
	}
	s.end("quick", 1)
	s.now = s.now.Add(time.Minute)
	s.want(s.pass(20), map[string]int{"slow": 0, "quick": 20}, 0)

	// Away for a while, and back: still in debt.
	s.end("quick", 1)
	s.waiting["slow"] = 0
	s.pass(0)
	s.waiting["slow"] = -1
	s.want(s.pass(20), map[string]int{"slow": 0, "quick": 20}, 0)
}

// A repeated outcome, or one of an unknown message, changes nothing. The ledger is empty in the end.
func TestOutcomesSettleWhatIsUnderwayOnce(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.waiting = map[string]int{"a": 3}
	s.pass(10)
	ids := s.sent["a"]
	runtime := 5 * time.Second
	outcomes := []settle.Outcome{
		{BackendID: ids[0].String(), Received: s.now, Runtime: &runtime},
		{BackendID: ids[1].String(), Received: s.now, Start: &settle.Start{EventTime: 1000}},
		{BackendID: ids[1].String(), Received: s.now, End: &settle.End{Status: model.RunFailed, EventTime: 1007}},
		{BackendID: ids[2].String(), Received: s.now, End: &settle.End{Status: model.RunEventful}}, // never heard to start
		{BackendID: uuid.NewString(), Received: s.now, Runtime: &runtime},
		{BackendID: "no uuid", Received: s.now, Runtime: &runtime},
	}
	for range 2 {
		if err := (settle.Store{Store: s.store}).ApplyOutcomes(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
	}
	s.pass(0)
	states, err := s.store.ShareStates(t.Context(), "q", s.now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a := states["a"]
	if a == nil || a.InFlight != 0 || math.Abs(a.Used-13) > 0.02 || math.Abs(a.Pieces-3) > 0.01 {
		t.Errorf("got %+v, want 5 + 7 + 1 seconds of 3 pieces", a)
	}
}

// After a half-life of an hour, a group's use counts half. After many, the group's row is deleted.
func TestUseIsForgotten(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.waiting = map[string]int{"a": 1}
	s.pass(1)
	s.end("a", 100)
	s.pass(0)
	s.now = s.now.Add(time.Hour)
	states, err := s.store.ShareStates(t.Context(), "q", s.now, time.Hour)
	if err != nil || math.Abs(states["a"].Used-50) > 0.1 {
		t.Errorf("%+v, %v; want 50 s", states["a"], err)
	}
	s.now = s.now.Add(40 * time.Hour)
	s.pass(0)
	if states, err = s.store.ShareStates(t.Context(), "q", s.now, time.Hour); err != nil || len(states) != 0 {
		t.Errorf("%+v, %v; want nothing", states, err)
	}
}
