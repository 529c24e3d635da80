package settle

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Work that timed out is requeued on the next lane, if there is one and its run has not been given up. In the last
// lane, its run isn't retried, unless the lane is configured to. Only a first try counts as slow work sent express.
func TestTimeOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left     int // number of lanes after this one
		timedOut int // number of earlier time-outs
		retried  bool
		run      model.RunStatus

		goesOn, final, slowSentExpress bool
	}{
		"first lane":                    {1, 0, false, model.RunStarted, true, false, true},
		"second lane of three":          {1, 1, false, model.RunStarted, true, false, false},
		"last lane":                     {0, 1, false, model.RunStarted, false, true, false},
		"last lane, which is retried":   {0, 1, true, model.RunStarted, false, false, false},
		"only lane":                     {0, 0, false, model.RunScheduled, false, true, false},
		"first lane, of a run given up": {1, 0, false, model.RunLost, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, w := uuid.New(), newWorld()
			w.runs[1] = &modelRun{LockedRun: ledger.LockedRun{ID: 1, Task: 1, BackendID: id.String(), Status: c.run}}
			w.work[id] = &ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Started: new(model.UnixSeconds(begin)), TimedOut: c.timedOut,
				Lane: ledger.WorkLane{Set: "load-git", Name: "lane", Left: c.left, Retried: c.retried, SoftLimit: time.Minute}}
			over := begin.Add(time.Minute)
			w.apply([]Outcome{{BackendID: id.String(), Received: over, End: &End{Status: model.RunFailed, TimedOut: true, EventTime: model.UnixSeconds(over)}}})
			if goesOn := len(w.backlog) == 1; goesOn != c.goesOn || !goesOn && len(w.work) > 0 {
				t.Errorf("goes on: %v, want %v; ledger: %v", goesOn, c.goesOn, w.work)
			}
			if w.runs[1].final != c.final {
				t.Errorf("final for its run: %v, want %v", w.runs[1].final, c.final)
			}
			if got := w.records["load-git/lane/"+ledger.LaneSlowSentExpress] == 1; got != c.slowSentExpress {
				t.Errorf("slow work sent express: %v, want %v", got, c.slowSentExpress)
			}
		})
	}
}
