package db

import (
	"context"
	"time"

	"swh-scheduler/sql/internal/stmt"
)

// TasksKey identifies the tasks of a type that go to the same queue.
type TasksKey struct {
	Type   string
	Urgent bool // with a priority
}

// WorkOfQueue counts the tasks of a queue that are not in it.
type WorkOfQueue struct {
	Ready   int // ready and unclaimed; per type, at most the 10,000 longest-waiting
	Running int // started, and not ended, by recorded events
}

// WorkOfTasks counts the ready tasks as of now, and the running ones.
func (s MonitorStore) WorkOfTasks(ctx context.Context, now time.Time) (map[TasksKey]WorkOfQueue, error) {
	ready, err := s.readyTasks(ctx, now)
	if err != nil {
		return nil, stmt.Failed(err, "count ready tasks")
	}
	running, err := s.q.RunningTasks(ctx)
	if err != nil {
		return nil, stmt.Failed(err, "count running tasks")
	}
	work := map[TasksKey]WorkOfQueue{}
	for _, r := range ready {
		key := TasksKey{r.Type, r.Priority != ""}
		w := work[key]
		w.Ready += int(r.Tasks)
		work[key] = w
	}
	for _, r := range running {
		key := TasksKey{r.Type, r.Urgent}
		w := work[key]
		w.Running = int(r.Tasks)
		work[key] = w
	}
	return work, nil
}

// BegunByQueue counts, by queue, the work of groups, lanes and hosters that has started and not ended, by
// recorded events.
func (s MonitorStore) BegunByQueue(ctx context.Context) (map[string]int, error) {
	rows, err := s.q.BegunByQueue(ctx)
	begun := make(map[string]int, len(rows))
	for _, r := range rows {
		begun[r.Queue] = int(r.Begun)
	}
	return begun, stmt.Failed(err, "count work that has begun")
}
