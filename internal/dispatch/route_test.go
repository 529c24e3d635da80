package dispatch

import (
	"testing"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Work that is predicted to exceed a lane's limit has that limit recorded, so that its runtime can judge the
// prediction. Work that was tried before goes to a later lane regardless.
func TestPredictionsAreNoted(t *testing.T) {
	l := &LaneSet{Name: "load-git", Lanes: []model.Lane{
		{Name: "express", Queue: "express", SoftTimeLimit: time.Minute}, {Name: "slow", Queue: "slow", SoftTimeLimit: time.Hour},
	}}
	for name, c := range map[string]struct {
		tried    bool
		expected float64
		lane     int
		below    float64
	}{
		"slow":             {false, 100, 1, 60},
		"quick":            {false, 5, 0, 0},
		"unknown":          {false, 0, 0, 0},
		"tried":            {true, 5, 1, 0},
		"tried, and slow":  {true, 100, 1, 0},
		"tried, not known": {true, 0, 1, 0},
	} {
		work := []ledger.Work{{Tried: c.tried}}
		states := []lanes.State{{Slots: 10, Min: 1, Max: 10}, {Slots: 10, Min: 1, Max: 10}}
		route(l, states, false, work, []float64{c.expected})
		if got := work[0].Lane; got.Number != c.lane || got.Below != c.below || got.Backlog {
			t.Errorf("%s: lane %d, below %g s, backlog: %v; want lane %d, below %g s", name, got.Number, got.Below, got.Backlog, c.lane, c.below)
		}
	}
}
