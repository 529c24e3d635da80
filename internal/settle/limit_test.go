package settle

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// For a task that catches its time-out, Celery sends a runtime, which may be a little below the limit, and the
// task's failed result, in any order. Such work is requeued on the next lane. Work with a shorter runtime, or
// without a failure, has ended.
func TestRuntimeAtTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took     float64
		status   model.RunStatus
		timedOut bool
	}{
		"at the limit":                    {60, model.RunFailed, true},
		"a little below":                  {59.995, model.RunFailed, true},
		"well below":                      {59, model.RunFailed, false},
		"a little below, and ended well":  {59.995, model.RunEventful, false},
		"beyond the limit and ended well": {61, model.RunEventful, false},
	} {
		for order, batches := range map[string][][]int{"runtime first": {{0}, {1}}, "result first": {{1}, {0}}, "at once": {{0, 1}}} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				id, w := uuid.New(), newWorld()
				w.work[id] = &ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Started: new(float64(begin.Unix())),
					Lane: ledger.WorkLane{Set: "load-git", Name: "express", Left: 1, SoftLimit: softLimit * time.Second}}
				over := begin.Add(time.Duration(c.took * float64(time.Second)))
				outcomes := []Outcome{
					{BackendID: id.String(), Received: over, Runtime: new(over.Sub(begin))},
					{BackendID: id.String(), Received: over, End: &End{Status: c.status, EventTime: model.UnixSeconds(over)}},
				}
				for _, batch := range batches {
					var told []Outcome
					for _, i := range batch {
						told = append(told, outcomes[i])
					}
					w.apply(told)
				}
				if timedOut := len(w.backlog) == 1; timedOut != c.timedOut {
					t.Errorf("goes on in the next lane: %v, want %v; %+v", timedOut, c.timedOut, w.work)
				}
			})
		}
	}
}
