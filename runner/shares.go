package runner

import (
	"context"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// job is what one claim of a pass serves: a task type, or all ready types of a shared
// queue.
type job struct {
	types  []model.TaskType
	only   []string // where types are the groups: those that this runner serves
	queue  dispatch.Queue
	shares *model.Shares // nil where the queue is not shared
}

// name is for logs and errors.
func (j job) name() string { return j.types[0].Type }

// jobs returns the jobs for the ready types, in their order. Tasks with priority are
// never divided between groups.
func (r *Runner) jobs(ready, all []model.TaskType) []job {
	byType := make(map[string]model.Shares) // queues whose groups are task types
	limits := make(map[string]*int64)
	served := make(map[string][]string) // types, by queue
	if !r.WithPriority {
		for _, tt := range all {
			if r.wanted(tt.Type) {
				served[queueOf(tt, false)] = append(served[queueOf(tt, false)], tt.Type)
			}
			if s, ok := r.Shares[tt.Type]; ok && s.By == model.ShareByTaskType {
				byType[queueOf(tt, false)] = s
				limits[queueOf(tt, false)] = tt.MaxQueueLength
			}
		}
	}
	var jobs []job
	at := make(map[string]int) // in jobs, of the queues in byType
	for _, tt := range ready {
		j := job{
			types: []model.TaskType{tt},
			queue: dispatch.Queue{Name: queueOf(tt, r.WithPriority), Limit: tt.MaxQueueLength},
		}
		if s, ok := byType[j.queue.Name]; ok {
			if i, seen := at[j.queue.Name]; seen {
				jobs[i].types = append(jobs[i].types, tt)
				continue
			}
			j.shares, j.queue.Limit, j.only = &s, limits[j.queue.Name], served[j.queue.Name]
			at[j.queue.Name] = len(jobs)
		} else if s, ok := r.Shares[tt.Type]; ok && !r.WithPriority {
			j.shares = &s
		}
		jobs = append(jobs, j)
	}
	for i := range jobs {
		jobs[i].queue = r.withLanes(jobs[i], all)
	}
	return jobs
}

// withLanes returns the queue of a job with the lane set of its type; if types are the
// groups, with that of the first type of the queue that has one.
func (r *Runner) withLanes(j job, all []model.TaskType) dispatch.Queue {
	owners := j.types[:1]
	if j.shares != nil && j.shares.By == model.ShareByTaskType {
		owners = all
	}
	for _, tt := range owners {
		key := tt.Type
		if r.WithPriority {
			key = model.PriorityLanes(tt.Type)
		}
		if queueOf(tt, r.WithPriority) != j.queue.Name {
			continue
		}
		if q := j.queue.WithLanes(key, tt, r.Lanes); q.Lanes != nil {
			return q
		}
	}
	return j.queue
}

// shareOut divides the free slots of a job's queue between groups of its tasks. It
// returns the number of claimed tasks by type.
func (r *Runner) shareOut(ctx context.Context, tx *db.Tx, j job, free int) (map[string]int, dispatch.Claimed, error) {
	byType := j.shares.By == model.ShareByTaskType
	claims := make(map[string]db.TaskClaim, len(j.types)) // by type
	waiting := dispatch.Waiting{Only: j.only}
	for _, tt := range j.types {
		c := r.taskClaim(j, tt)
		c.By = j.shares.By
		claims[tt.Type] = c
		waiting.Groups = append(waiting.Groups, tt.Type)
	}
	now := claims[j.name()].Now
	if !byType {
		var err error
		if waiting.Groups, err = tx.ReadyTaskGroups(ctx, claims[j.name()], j.shares.By); err != nil {
			return nil, dispatch.Claimed{}, err
		}
	}
	perType := make(map[string]int, len(j.types))
	var claimed dispatch.Claimed
	queue := dispatch.SharedQueue{Name: j.queue.Name, Shares: *j.shares}
	n, _, err := dispatch.ShareOut(ctx, tx, queue, now, free, waiting, func(ctx context.Context, asks []dispatch.Ask) ([]int, error) {
		given := make([]int, 0, len(asks))
		// All groups of one type at once; where groups are types, one at a time.
		for len(given) < len(asks) {
			some, taskType := asks[len(given):], j.name()
			if byType {
				some, taskType = some[:1], some[0].Name
			}
			c := claims[taskType]
			c.Groups = some
			got, work, err := tx.ClaimTasks(ctx, c)
			if err != nil {
				return nil, err
			}
			for _, n := range got {
				perType[taskType] += n
			}
			given = append(given, got...)
			claimed.Work = append(claimed.Work, work...)
		}
		return given, nil
	})
	claimed.Written = n - len(claimed.Work)
	return perType, claimed, err
}
