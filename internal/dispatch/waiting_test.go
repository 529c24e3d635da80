package dispatch

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// A group is busy if the last claim of the same kind left work of it waiting, or one of the other kind did in the
// last ten minutes.
func TestBusyGroups(t *testing.T) {
	now := time.Now()
	since := func(d time.Duration) float64 { return model.UnixSeconds(now.Add(-d)) }
	for name, c := range map[string]struct {
		same, other float64
		want        bool
	}{
		"nothing waits":           {0, 0, false},
		"the same kind, long ago": {since(time.Hour), 0, true},
		"the other, lately":       {0, since(9 * time.Minute), true},
		"the other, long ago":     {0, since(11 * time.Minute), false},
	} {
		if got := (WaitingGroups{Visits: true}).busy(&ledger.ShareState{VisitsWaited: c.same, TasksWaited: c.other}, now); got != c.want {
			t.Errorf("%s: visits: %v, want %v", name, got, c.want)
		}
		if got := (WaitingGroups{}).busy(&ledger.ShareState{TasksWaited: c.same, VisitsWaited: c.other}, now); got != c.want {
			t.Errorf("%s: tasks: %v, want %v", name, got, c.want)
		}
	}
}
