package dispatch

import (
	"context"
	"maps"
	"slices"
	"strings"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// LanedQueues returns the queues with lanes, in the order of their lane sets' names.
func LanedQueues(ctx context.Context, store *db.Store, lanes map[string][]model.Lane) ([]Queue, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var queues []Queue
	for _, laneSet := range slices.Sorted(maps.Keys(lanes)) {
		if tt, prefix, ok := model.TypeOf(laneSet, types); ok {
			queues = append(queues, Queue{Name: tt.QueueWith(prefix), Limit: tt.MaxQueueLength}.WithLanes(laneSet, tt, lanes))
		}
	}
	return queues, nil
}

// KnownQueue is a queue to which tasks or visits are sent.
type KnownQueue struct {
	Name     string
	TaskType string
	Limit    int64  // most messages; 0 is no limit
	LaneSet  string // lane set of which it is a lane; "" if it is none
	Lane     int    // number of the lane in the set
	Lanes    *LaneSet
	Tasks    TaskKind // for queues without lanes
}

// TaskKind is the kind of a type's tasks that go to a queue.
type TaskKind int

// The tasks that go to a queue.
const (
	NoTasks     TaskKind = iota // only visits
	PlainTasks                  // those without priority
	UrgentTasks                 // those with priority
)

// KnownQueues returns the queues of all task types: their own, those of tasks with priority,
// of the configured lanes and of first visits, in the order of their names.
func KnownQueues(ctx context.Context, store *db.Store, lanes map[string][]model.Lane) ([]KnownQueue, error) {
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	prefixes, err := store.FirstVisitsPrefixes(ctx)
	if err != nil {
		return nil, err
	}
	laned, err := LanedQueues(ctx, store, lanes)
	if err != nil {
		return nil, err
	}
	known := map[string]KnownQueue{}
	for _, tt := range types {
		limit := int64(0)
		if tt.MaxQueueLength != nil {
			limit = *tt.MaxQueueLength
		}
		names := []string{tt.Queue(), model.PriorityLanes(tt.BackendName)}
		if _, ok := model.LoadedVisitType(tt.Type); ok {
			names = append(names, tt.BackendName) // its visits go there, whatever the routes of tasks
			for _, prefix := range prefixes {
				names = append(names, prefix+":"+tt.BackendName)
			}
		}
		for _, name := range names {
			kind := NoTasks
			switch name {
			case tt.Queue():
				kind = PlainTasks
			case model.PriorityLanes(tt.BackendName):
				kind = UrgentTasks
			}
			known[name] = KnownQueue{Name: name, TaskType: tt.Type, Limit: limit, Tasks: kind}
		}
	}
	for _, q := range laned {
		for i, lane := range q.Lanes.Lanes {
			known[lane.Queue] = KnownQueue{Name: lane.Queue, TaskType: q.Lanes.TaskType, Limit: int64(lane.Slots), LaneSet: q.Lanes.Name, Lane: i, Lanes: q.Lanes}
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b KnownQueue) int { return strings.Compare(a.Name, b.Name) }), nil
}

// SharedQueues returns the queues that groups share, in the order of their task types. policies are those of the
// visits that this process sends; nil if it sends none.
func SharedQueues(ctx context.Context, store *db.Store, shares map[string]model.Shares, policies map[string][]model.WeightedPolicy) ([]SharedQueue, error) {
	if len(shares) == 0 {
		return nil, nil
	}
	types, err := store.TaskTypes(ctx)
	var queues []SharedQueue
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if tt, prefix, ok := model.TypeOf(name, types); ok {
			q := SharedQueue{Name: tt.QueueWith(prefix), Shares: shares[name]}
			if prefix == "" {
				q.Type, q.Policies = &tt, policies
			}
			queues = append(queues, q)
		}
	}
	return queues, err
}
