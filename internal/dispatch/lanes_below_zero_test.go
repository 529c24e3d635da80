package dispatch

import (
	"testing"

	"swh-scheduler/internal/model"
)

// Lanes without slots of their own get those of the type's limit; a limit below zero gives none.
func TestLanesOfALimitBelowZero(t *testing.T) {
	t.Parallel()
	tt := model.TaskType{Type: "load-git", BackendName: "git", MaxQueueLength: new(int64(-1))}
	q := Queue{Name: "git", Limit: tt.MaxQueueLength}.WithLanes("load-git", tt, map[string][]model.Lane{"load-git": {{Name: "a", Queue: "a"}, {Name: "b", Queue: "b"}}})
	for _, lane := range q.Lanes.Lanes {
		if lane.Slots != 0 || lane.MaxSlots != 0 {
			t.Errorf("lane %s has %d to %d slots, want none", lane.Name, lane.Slots, lane.MaxSlots)
		}
	}
}
