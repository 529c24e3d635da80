package runner

import (
	"context"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// job is what one claim of a pass serves: a task type, or all the ready types of a
// queue that they share.
type job struct {
	types  []scheduler.TaskType
	queue  dispatch.Queue
	shares *scheduler.Shares // nil where the queue is not shared
}

// name is for logs and errors.
func (j job) name() string { return j.types[0].Type }

// jobs are those of a pass over ready types, in their order. Tasks with priority
// go first, so they are never shared out.
func (r *Runner) jobs(ready, all []scheduler.TaskType) []job {
	byType := make(map[string]scheduler.Shares) // queues whose groups are task types
	limits := make(map[string]*int64)
	if !r.WithPriority {
		for _, tt := range all {
			if s, ok := r.Shares[tt.Type]; ok && s.By == scheduler.ShareByTaskType {
				byType[queueOf(tt, false)] = s
				limits[queueOf(tt, false)] = tt.MaxQueueLength
			}
		}
	}
	var jobs []job
	at := make(map[string]int) // in jobs, of the queues in byType
	for _, tt := range ready {
		j := job{
			types: []scheduler.TaskType{tt},
			queue: dispatch.Queue{Name: queueOf(tt, r.WithPriority), Limit: tt.MaxQueueLength},
		}
		if s, ok := byType[j.queue.Name]; ok {
			if i, seen := at[j.queue.Name]; seen {
				jobs[i].types = append(jobs[i].types, tt)
				continue
			}
			j.shares, j.queue.Limit = &s, limits[j.queue.Name]
			at[j.queue.Name] = len(jobs)
		} else if s, ok := r.Shares[tt.Type]; ok && !r.WithPriority {
			j.shares = &s
		}
		jobs = append(jobs, j)
	}
	for i := range jobs {
		jobs[i].queue = r.onLanes(jobs[i], all)
	}
	return jobs
}

// onLanes is the queue of a job with the lanes of its type; where types are the
// groups that share it, with those of the first type of the queue that has some.
func (r *Runner) onLanes(j job, all []scheduler.TaskType) dispatch.Queue {
	owners := j.types[:1]
	if j.shares != nil && j.shares.By == scheduler.ShareByTaskType {
		owners = all
	}
	for _, tt := range owners {
		if queueOf(tt, r.WithPriority) != j.queue.Name {
			continue
		}
		if q := j.queue.OnLanes(r.line(tt), tt, r.Lanes); q.Lanes != nil {
			return q
		}
	}
	return j.queue
}

// line is the key of a type's lanes.
func (r *Runner) line(tt scheduler.TaskType) string {
	if r.WithPriority {
		return scheduler.PriorityLanes(tt.Type)
	}
	return tt.Type
}

// shareOut divides the free slots of a job's queue between groups of its tasks. It
// returns how many tasks it claimed of each of its types.
func (r *Runner) shareOut(ctx context.Context, tx *sql.Tx, j job, free int) (map[string]int, error) {
	now := r.now()
	claims := make(map[string]sql.TaskClaim, len(j.types)) // by group, where that is the type
	for _, tt := range j.types {
		claims[tt.Type] = sql.TaskClaim{Type: tt, Queue: j.queue.Name, Now: now}
	}
	var waiting []string
	if j.shares.By == scheduler.ShareByTaskType {
		for _, tt := range j.types {
			waiting = append(waiting, tt.Type)
		}
	} else {
		var err error
		if waiting, err = tx.ReadyTaskGroups(ctx, claims[j.name()], j.shares.By); err != nil {
			return nil, err
		}
	}
	claimed := make(map[string]int, len(j.types))
	queue := dispatch.SharedQueue{Name: j.queue.Name, Shares: *j.shares}
	_, err := dispatch.ShareOut(ctx, tx, queue, now, free, waiting, func(ctx context.Context, asks []dispatch.Ask) ([]int, error) {
		given := make([]int, 0, len(asks))
		// All groups of one type at once; where groups are types, one at a time.
		for len(given) < len(asks) {
			some, taskType := asks[len(given):], j.name()
			if j.shares.By == scheduler.ShareByTaskType {
				some, taskType = some[:1], some[0].Group
			}
			n, err := tx.ClaimGroupedTasks(ctx, claims[taskType], j.shares.By, taskGroups(some))
			if err != nil {
				return nil, err
			}
			for _, n := range n {
				claimed[taskType] += n
			}
			given = append(given, n...)
		}
		return given, nil
	})
	return claimed, err
}

func taskGroups(asks []dispatch.Ask) []sql.TaskGroup {
	groups := make([]sql.TaskGroup, len(asks))
	for i, a := range asks {
		groups[i] = sql.TaskGroup{Name: a.Group, Count: a.Count, Cost: a.Cost}
	}
	return groups
}
