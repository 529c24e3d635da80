package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// job is the work of one claim of a pass: a task type, or all ready types of a shared queue.
type job struct {
	types  []model.TaskType
	only   []string // types that this runner sends, if types are the groups
	queue  dispatch.Queue
	shares *model.Shares // nil if the queue is not shared
	from   time.Time     // of a type that is not shared: its earlier tasks are not looked for; zero: all are

	emptied bool // whether the claim of this pass left none of them
}

// name is for logs and errors.
func (j job) name() string { return j.types[0].Type }

// failed returns an error of a claim with the job's name.
func (j job) failed(err error) error { return fmt.Errorf("task type %q: %w", j.name(), err) }

// simple reports whether other queues may be claimed for in the same transaction.
func (j job) simple() bool { return j.shares == nil && j.queue.Lanes == nil && j.queue.Limited() }

// typeOf returns a type of the job by its name.
func (j job) typeOf(name string) model.TaskType {
	return j.types[slices.IndexFunc(j.types, func(tt model.TaskType) bool { return tt.Type == name })]
}

// jobs returns the jobs of the ready types, in their order. Tasks with priority are never divided between groups.
func (r *Runner) jobs(ready, all []model.TaskType) []job {
	byType := make(map[string]model.Shares) // queues whose groups are task types
	limits := make(map[string]*int64)
	served := make(map[string][]string) // types, by queue
	if !r.WithPriority {
		for _, tt := range all {
			if r.wanted(tt.Type) {
				served[tt.QueueFor(false)] = append(served[tt.QueueFor(false)], tt.Type)
			}
			if s, ok := r.Shares[tt.Type]; ok && s.By == model.ShareByTaskType {
				byType[tt.QueueFor(false)] = s
				limits[tt.QueueFor(false)] = tt.MaxQueueLength
			}
		}
	}
	var jobs []job
	at := make(map[string]int) // indexes in jobs, by queue in byType
	for _, tt := range ready {
		j := job{
			types: []model.TaskType{tt},
			queue: dispatch.Queue{Name: tt.QueueFor(r.WithPriority), Limit: tt.MaxQueueLength},
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

// withLanes returns the queue of a job with the lane set of its type. If types are the groups, it takes the lane set
// of the queue's first type that has one.
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
		if tt.QueueFor(r.WithPriority) != j.queue.Name {
			continue
		}
		if q := j.queue.WithLanes(key, tt, r.Lanes); q.Lanes != nil {
			return q
		}
	}
	return j.queue
}

// take claims tasks of a job up to the size of a claim. It returns their number by type, without zeros, and their
// messages.
func (r *Runner) take(ctx context.Context, c *dispatch.Claim, j job) (taken map[string]int, work []ledger.Work, err error) {
	claim := ledger.TaskClaim{Type: j.types[0], Queue: j.queue.Name, WithPriority: r.WithPriority, Ageing: r.Ageing, Now: r.now(), Tried: j.queue.Lanes != nil}
	if j.shares != nil {
		claim.By = j.shares.By
	} else {
		claim.From = j.from
	}
	d, err := divide(ctx, c, j, claim)
	if err != nil {
		return nil, nil, err
	}
	taken = make(map[string]int)
	for asks := d.Next(); asks != nil; asks = d.Next() {
		given := make([]int, 0, len(asks))
		for len(given) < len(asks) {
			claim.Groups = asks[len(given):]
			if claim.By == model.ShareByTaskType { // the groups are types: one at a time
				claim.Groups, claim.Type = claim.Groups[:1], j.typeOf(claim.Groups[0].Name)
			}
			some, messages, err := c.Tx.ClaimTasks(ctx, claim)
			if err != nil {
				return nil, nil, err
			}
			given, work = append(given, some...), append(work, messages...)
			if len(messages) > 0 {
				taken[claim.Type.Type] += len(messages)
			}
		}
		d.RecordClaimed(given)
	}
	return taken, work, d.Save(ctx, c.Tx)
}

// divide begins the division of a claim between the groups of its queue that have tasks ready.
func divide(ctx context.Context, c *dispatch.Claim, j job, claim ledger.TaskClaim) (*dispatch.Division, error) {
	if j.shares == nil {
		return dispatch.SingleGroupDivision(c.Size), nil
	}
	waiting := dispatch.WaitingGroups{Read: j.only}
	for _, tt := range j.types {
		waiting.Groups = append(waiting.Groups, tt.Type)
	}
	if claim.By != model.ShareByTaskType {
		var err error
		if waiting.Groups, err = c.Tx.ReadyTaskGroups(ctx, claim, claim.By); err != nil {
			return nil, err
		}
	}
	return dispatch.Divide(ctx, c.Tx, dispatch.SharedQueue{Name: j.queue.Name, Shares: *j.shares}, claim.Now, c.Size, waiting)
}
