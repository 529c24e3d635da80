package status

import (
	"context"
	"math"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Demand is the work of a queue, and the wait intended for it.
type Demand struct {
	Waiting  int           // without a worker
	Reserved int           // with workers
	Runtime  time.Duration // mean time of the work; 0: unknown
	Target   time.Duration // the longest wait intended; above 0
	Max      int           // most workers; 0: unlimited
}

// Workers returns the number of workers that the queue should have, each of which does one message at a time. It is
// enough to begin the waiting work within the target, at least the number that are busy, and at least one while work
// waits.
func (d Demand) Workers() int {
	wanted := d.Reserved
	if d.Waiting > 0 {
		need := math.Ceil(float64(d.Waiting) * d.Runtime.Seconds() / d.Target.Seconds())
		wanted = max(wanted, 1, int(min(need, math.MaxInt32)))
	}
	if d.Max > 0 {
		wanted = min(wanted, d.Max)
	}
	return wanted
}

// runtimeOf returns the mean time of the work of a queue, from the times of its type. For a lane, it uses the times
// between the limit of the lane before and its own. Without known times, it returns the configured one.
func runtimeOf(q dispatch.KnownQueue, took lanes.Sketch, configured time.Duration) time.Duration {
	from, to := time.Duration(0), time.Duration(math.MaxInt64)
	if q.Lanes != nil {
		to = q.Lanes.Lanes[q.Lane].SoftTimeLimit
		if q.Lane > 0 {
			from = q.Lanes.Lanes[q.Lane-1].SoftTimeLimit
		}
	}
	if mean := took.Mean(from, to); mean > 0 {
		return mean
	}
	return min(max(configured, from), to)
}

// demandOf returns the demand of a queue.
func demandOf(known dispatch.KnownQueue, q Queue, work db.WorkOfQueue, took lanes.Sketch, configured model.WantedWorkers) Demand {
	d := Demand{
		Waiting: q.Ready + q.Outgoing + q.Backlog + work.Ready, Reserved: work.Running,
		Runtime: runtimeOf(known, took, configured.Runtime), Target: configured.TargetWait, Max: configured.Max,
	}
	if q.Unacknowledged != nil {
		d.Reserved = max(d.Reserved, *q.Unacknowledged)
	}
	if known.Lanes != nil && known.Lanes.Lanes[known.Lane].TargetWait > 0 {
		d.Target = known.Lanes.Lanes[known.Lane].TargetWait
	}
	return d
}

// Demands returns the demand of each queue with a sender, even if the queue doesn't exist yet. It omits queues whose
// length the broker refuses to report. took has the runtimes by task type. It takes no locks, so that its figures are
// from slightly different times.
func Demands(ctx context.Context, store *db.Store, broker QueueSource, c *config.Config, took map[string]lanes.Sketch) (map[string]Demand, error) {
	known, err := dispatch.KnownQueues(ctx, store, c.Lanes)
	if err != nil {
		return nil, err
	}
	queues, err := Queues(ctx, store, broker, known, nil)
	if err != nil {
		return nil, err
	}
	work, err := store.WorkOfTasks(ctx, store.Now())
	if err != nil {
		return nil, err
	}
	begun, err := store.BegunByQueue(ctx)
	if err != nil {
		return nil, err
	}
	state := make(map[string]Queue, len(queues))
	for _, q := range queues {
		state[q.Queue] = q
	}
	demands := map[string]Demand{}
	for _, k := range known {
		of := tasksOf(k, work)
		of.Running = max(of.Running, begun[k.Name])
		q := state[k.Name] // zero: it doesn't exist
		if q.Problem != "" {
			continue
		}
		demands[k.Name] = demandOf(k, q, of, took[k.TaskType], model.WantedOf(c.WantedWorkers, k.TaskType))
	}
	return demands, nil
}

// tasksOf returns the number of tasks that are ready for a queue, or for the lanes that begin with it, and of those
// running from it. Tasks in lanes are counted as work instead.
func tasksOf(k dispatch.KnownQueue, work map[db.TasksKey]db.WorkOfQueue) db.WorkOfQueue {
	switch {
	case k.LaneSet == k.TaskType && k.Lane == 0:
		return db.WorkOfQueue{Ready: work[db.TasksKey{Type: k.TaskType}].Ready}
	case k.LaneSet == model.PriorityLanes(k.TaskType) && k.Lane == 0:
		return db.WorkOfQueue{Ready: work[db.TasksKey{Type: k.TaskType, Urgent: true}].Ready}
	case k.LaneSet == "" && k.Tasks != dispatch.NoTasks:
		return work[db.TasksKey{Type: k.TaskType, Urgent: k.Tasks == dispatch.UrgentTasks}]
	}
	return db.WorkOfQueue{}
}
