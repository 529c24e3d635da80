package db

import (
	"context"
	"time"

	"swh-scheduler/sql/internal/stmt"
)

// TasksKey names the tasks of a type that go to the same queue.
type TasksKey struct {
	Type   string
	Urgent bool // with a priority
}

// WorkOfQueue counts the tasks of a queue that it doesn't hold.
type WorkOfQueue struct {
	Ready   int // ready, and not claimed; of a type the 10,000 that wait longest
	Running int // known to have begun, and not to have ended
}

// WorkOfTasks counts the tasks that are ready, as of now, and those that run.
func (s MonitorStore) WorkOfTasks(ctx context.Context, now time.Time) (map[TasksKey]WorkOfQueue, error) {
	ready, err := s.readyTasks(ctx, now)
	if err != nil {
		return nil, stmt.Failed(err, "look at ready tasks")
	}
	running, err := s.q.RunningTasks(ctx)
	if err != nil {
		return nil, stmt.Failed(err, "look at running tasks")
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

// BegunByQueue counts, by queue, the work of groups, lanes and hosters that is known to have begun and not to have ended.
func (s MonitorStore) BegunByQueue(ctx context.Context) (map[string]int, error) {
	rows, err := s.q.BegunByQueue(ctx)
	begun := make(map[string]int, len(rows))
	for _, r := range rows {
		begun[r.Queue] = int(r.Begun)
	}
	return begun, stmt.Failed(err, "look at work that has begun")
}
