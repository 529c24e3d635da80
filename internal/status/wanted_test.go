package status

import (
	"math"
	"testing"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
)

func TestWantedWorkers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what string
		d    Demand
		want int
	}{
		{"nothing waits or runs", Demand{Runtime: time.Hour, Target: time.Minute}, 0},
		{"one message, nothing known", Demand{Waiting: 1, Target: time.Minute}, 1},
		{"many, nothing known", Demand{Waiting: 5000, Target: time.Minute}, 1},
		{"one message, long work", Demand{Waiting: 1, Runtime: time.Hour, Target: 10 * time.Minute}, 6},
		{"what one worker does in time", Demand{Waiting: 10, Runtime: time.Minute, Target: 10 * time.Minute}, 1},
		{"one more than that", Demand{Waiting: 11, Runtime: time.Minute, Target: 10 * time.Minute}, 2},
		{"work in hand is not taken away", Demand{Waiting: 1, Reserved: 12, Runtime: time.Second, Target: 10 * time.Minute}, 12},
		{"nothing waits, work in hand", Demand{Reserved: 3, Runtime: time.Second, Target: time.Minute}, 3},
		{"a bound", Demand{Waiting: 1000, Reserved: 2, Runtime: time.Minute, Target: time.Minute, Max: 64}, 64},
		{"a bound below what is in hand", Demand{Reserved: 70, Target: time.Minute, Max: 64}, 64},
		{"beyond all bounds", Demand{Waiting: math.MaxInt32, Runtime: 1000 * time.Hour, Target: time.Second}, math.MaxInt32},
	} {
		if got := tc.d.Workers(); got != tc.want {
			t.Errorf("%s: %d workers, not %d", tc.what, got, tc.want)
		}
	}
}

// The runtime of a lane's work is the mean of its type's runtimes between the limits.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	took := lanes.Sketch{lanes.Bucket(10): 90, lanes.Bucket(1000): 10}
	set := &dispatch.LaneSet{Lanes: []model.Lane{{SoftTimeLimit: time.Minute}, {SoftTimeLimit: time.Hour}, {SoftTimeLimit: 10 * time.Hour}}}
	for _, tc := range []struct {
		what       string
		q          dispatch.KnownQueue
		took       lanes.Sketch
		configured time.Duration
		from, to   float64 // seconds
	}{
		{"a plain queue", dispatch.KnownQueue{}, took, time.Hour, 95, 125},
		{"a plain queue, nothing known", dispatch.KnownQueue{}, nil, time.Hour, 3600, 3600},
		{"a plain queue, nothing known or configured", dispatch.KnownQueue{}, nil, 0, 0, 0},
		{"the first lane", dispatch.KnownQueue{Lanes: set}, took, 0, 8, 12},
		{"the second lane", dispatch.KnownQueue{Lanes: set, Lane: 1}, took, 0, 800, 1200},
		{"a lane of what nothing took", dispatch.KnownQueue{Lanes: set, Lane: 2}, took, 0, 3600, 3600},
		{"a lane, nothing known", dispatch.KnownQueue{Lanes: set, Lane: 1}, nil, 10 * time.Hour, 3600, 3600},
		{"the first lane, nothing known", dispatch.KnownQueue{Lanes: set}, nil, 0, 0, 0},
	} {
		if got := runtimeOf(tc.q, tc.took, tc.configured).Seconds(); got < tc.from || got > tc.to {
			t.Errorf("%s: %v s, not %v to %v", tc.what, got, tc.from, tc.to)
		}
	}
}

// Missing fields of a task type come from the default, and then from the program.
func TestWantedOf(t *testing.T) {
	t.Parallel()
	all := map[string]model.WantedWorkers{"default": {TargetWait: time.Minute, Max: 8}, "load-git": {Runtime: time.Second, Max: 64}}
	for taskType, want := range map[string]model.WantedWorkers{
		"load-git": {TargetWait: time.Minute, Runtime: time.Second, Max: 64},
		"load-hg":  {TargetWait: time.Minute, Max: 8},
	} {
		if got := model.WantedOf(all, taskType); got != want {
			t.Errorf("%s: %+v", taskType, got)
		}
	}
	if got := model.WantedOf(nil, "load-git"); got != (model.WantedWorkers{TargetWait: 10 * time.Minute}) {
		t.Errorf("%+v", got)
	}
}
