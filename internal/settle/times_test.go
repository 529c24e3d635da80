package settle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// The start and the end of an event without a time are when the listener received it.
func TestEventsWithoutTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ startTime, endTime float64 }{
		"start":   {0, float64(begin.Unix() + 40)},
		"end":     {float64(begin.Unix()), 0},
		"neither": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, w := uuid.New(), newWorld()
			w.work[id] = &ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Share: ledger.Share{Shared: true, Group: "g", Cost: 7}}
			w.apply([]Outcome{{BackendID: id.String(), Received: begin, Start: &Start{EventTime: c.startTime}}})
			w.apply([]Outcome{{BackendID: id.String(), Received: begin.Add(40 * time.Second), End: &End{Status: model.RunEventful, EventTime: c.endTime}}})
			if got := w.charged["q/g"]; got != 40 {
				t.Errorf("the group is charged %v s, want 40", got)
			}
		})
	}
}

// Ends of runs of one task are written one after another, in the order in which they came. Each moves the task on
// from the state that the end before it left.
func TestRunsOfOneTaskEndInTurn(t *testing.T) {
	t.Parallel()
	var outcomes []Outcome
	var runs []ledger.LockedRun
	for i, task := range []int64{1, 2, 1, 1, 2} {
		backendID := string(rune('a' + i))
		outcomes = append(outcomes, Outcome{BackendID: backendID, Received: begin, End: &End{Status: model.RunEventful}})
		runs = append([]ledger.LockedRun{{ID: int64(10 + i), Task: task, BackendID: backendID, Status: model.RunStarted}}, runs...)
	}
	var got [][]int64
	for _, wave := range decide(gather(outcomes), runs, nil, uuid.New).Ended {
		var ids []int64
		for _, end := range wave {
			ids = append(ids, end.Run)
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff([][]int64{{10, 11}, {12, 14}, {13}}, got); diff != "" {
		t.Errorf("runs by wave (-want +got):\n%s", diff)
	}
}

// If workers' clocks differ, work that ended before it started has a runtime of zero: its group gets no refund.
func TestEndBeforeStart(t *testing.T) {
	t.Parallel()
	id, w := uuid.New(), newWorld()
	w.work[id] = &ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Share: ledger.Share{Shared: true, Group: "g", Cost: 7}}
	now := float64(begin.Unix())
	w.apply([]Outcome{
		{BackendID: id.String(), Received: begin, Start: &Start{EventTime: now}},
		{BackendID: id.String(), Received: begin, End: &End{Status: model.RunEventful, EventTime: now - 40}},
	})
	if got := w.charged["q/g"]; got != 0 {
		t.Errorf("the group is charged %v s, want 0", got)
	}
}

// The history of a lane has the wait of each first try, once.
func TestWaitsOfFirstTries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work   ledger.LockedWork
		starts int
		want   int
	}{
		"first try":                             {ledger.LockedWork{}, 1, 1},
		"started again":                         {ledger.LockedWork{}, 2, 1},
		"second try":                            {ledger.LockedWork{TimedOut: 1}, 1, 0},
		"ended before its start was heard":      {ledger.LockedWork{Settled: true}, 1, 1},
		"second try, ended before it was heard": {ledger.LockedWork{Settled: true, TimedOut: 1}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, w := uuid.New(), newWorld()
			c.work.TaskID, c.work.Home, c.work.Claimed, c.work.Lane = id, "q", begin, ledger.WorkLane{Set: "load-git", Name: "express", SoftLimit: time.Minute}
			w.work[id] = &c.work
			for i := range c.starts {
				at := begin.Add(time.Duration(i+1) * time.Second)
				w.apply([]Outcome{{BackendID: id.String(), Received: at, Start: &Start{EventTime: model.UnixSeconds(at)}}})
			}
			if got := w.records[waitKey]; got != c.want {
				t.Errorf("%d waits are recorded, want %d", got, c.want)
			}
		})
	}
}
