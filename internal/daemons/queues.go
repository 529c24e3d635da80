package daemons

import (
	"context"
	"maps"
	"slices"
	"strings"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// priorityPrefix starts the names of queues and lane sets of tasks with priority.
var priorityPrefix = model.PriorityLanes("")

// sharing checks that the database is ready for the configured shares, warns of unknown
// names, and returns the component that measures shares; none if no queue is shared.
func (o *Options) sharing(ctx context.Context, store *db.Store) ([]service.Component, error) {
	if len(o.Config.Shares) == 0 {
		return nil, nil
	}
	var queues []dispatch.SharedQueue
	err := o.patiently(ctx, store, func(ctx context.Context) (err error) {
		if err := store.CheckShares(ctx, o.Config.Shares); err != nil {
			return err
		}
		queues, err = o.sharedQueues(ctx, store)
		return err
	})
	if err != nil {
		return nil, err
	}
	gauges := dispatch.NewShareGauges(store, queues, o.Log, o.Metrics)
	return []service.Component{{Name: "gauges of shares", Run: gauges.Run}}, nil
}

func (o *Options) sharedQueues(ctx context.Context, store *db.Store) ([]dispatch.SharedQueue, error) {
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	listers, err := store.Listers(ctx)
	if err != nil {
		return nil, err
	}
	var queues []dispatch.SharedQueue
	for _, name := range slices.Sorted(maps.Keys(o.Config.Shares)) {
		shares := o.Config.Shares[name]
		at := slices.IndexFunc(types, func(tt model.TaskType) bool { return tt.Type == name })
		if at < 0 {
			o.warnOfName("shares are configured for a task type that is not there", name, typeNames(types))
			continue
		}
		queues = append(queues, dispatch.SharedQueue{Name: types[at].Queue(), Shares: shares})
		known := groupsThatCanBe(shares.By, types, listers)
		for _, group := range slices.Sorted(maps.Keys(shares.Weights)) {
			if known != nil && !slices.Contains(known, group) {
				o.warnOfName("shares give a weight to a group that is not there", group, known)
			}
		}
	}
	return queues, nil
}

func typeNames(types []model.TaskType) []string {
	names := make([]string, len(types))
	for i, tt := range types {
		names[i] = tt.Type
	}
	return names
}

// groupsThatCanBe returns the possible groups; nil if they are not known.
func groupsThatCanBe(by model.ShareKey, types []model.TaskType, listers []model.Lister) []string {
	var names []string
	switch by {
	case model.ShareByTaskType:
		names = typeNames(types)
	case model.ShareByLister, model.ShareByListerInstance:
		for _, l := range listers {
			names = append(names, model.ListerGroup(by, l))
		}
	default:
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (o *Options) warnOfName(problem, name string, known []string) {
	log := o.Log.With("name", name)
	if near := config.Nearest(name, known); near != "" {
		log = log.With("did_you_mean", near)
	}
	log.Warn(problem)
}

// laning warns of lanes of unknown task types and returns the component that sends to
// lanes; none if there are no lanes.
func (o *Options) laning(ctx context.Context, store *db.Store, d *dispatcher) ([]service.Component, error) {
	if len(o.Config.Lanes) == 0 {
		return nil, nil
	}
	var types []model.TaskType
	err := o.patiently(ctx, store, func(ctx context.Context) (err error) {
		types, err = store.TaskTypes(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := typeNames(types)
	for _, laneSet := range slices.Sorted(maps.Keys(o.Config.Lanes)) {
		if name := strings.TrimPrefix(laneSet, priorityPrefix); !slices.Contains(names, name) {
			o.warnOfName("lanes are configured for a task type that is not there", name, names)
		}
	}
	// Before work may come into their backlogs.
	if err := o.patiently(ctx, store, func(ctx context.Context) error {
		return store.SeeLaneSets(ctx, slices.Collect(maps.Keys(o.Config.Lanes)), store.Now())
	}); err != nil {
		return nil, err
	}
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{
		Store: store, Slots: d.slots, Log: o.Log, Reg: o.Metrics, Listen: store.ListenLanes, Recall: d.inspector.Recall,
		Queues: func(ctx context.Context) ([]dispatch.Queue, error) { return LanedQueues(ctx, store, o.Config.Lanes) },
	})
	return []service.Component{{Name: "lanes", Run: pump.Run}}, nil
}

// homeQueue returns the queue of a lane set's work if it had no lanes.
func homeQueue(laneSet string, tt model.TaskType) dispatch.Queue {
	name := tt.Queue()
	if strings.HasPrefix(laneSet, priorityPrefix) {
		name = priorityPrefix + tt.BackendName
	}
	return dispatch.Queue{Name: name, Limit: tt.MaxQueueLength}
}

// LanedQueues returns the queues with lanes, in the order of their lane sets' names.
func LanedQueues(ctx context.Context, store *db.Store, lanes map[string][]model.Lane) ([]dispatch.Queue, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var queues []dispatch.Queue
	for _, laneSet := range slices.Sorted(maps.Keys(lanes)) {
		at := slices.IndexFunc(types, func(tt model.TaskType) bool { return tt.Type == strings.TrimPrefix(laneSet, priorityPrefix) })
		if at >= 0 {
			queues = append(queues, homeQueue(laneSet, types[at]).WithLanes(laneSet, types[at], lanes))
		}
	}
	return queues, nil
}

// KnownQueue is a queue to which tasks or visits are sent.
type KnownQueue struct {
	Name     string
	TaskType string
	Limit    int64  // how many messages it may hold; 0 is no limit
	LaneSet  string // whose lane it is; "" if it is none
	Lane     int    // its number in the set
	Lanes    *dispatch.LaneSet
}

// KnownQueues returns the queues of all task types: their own, those of tasks with priority,
// of lanes and of first visits, in the order of their names.
func KnownQueues(ctx context.Context, store *db.Store, c *config.Config) ([]KnownQueue, error) {
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	listers, err := store.ListersWithFirstVisits(ctx)
	if err != nil {
		return nil, err
	}
	laned, err := LanedQueues(ctx, store, c.Lanes)
	if err != nil {
		return nil, err
	}
	known := map[string]KnownQueue{}
	for _, tt := range types {
		limit := int64(0)
		if tt.MaxQueueLength != nil {
			limit = *tt.MaxQueueLength
		}
		names := []string{tt.Queue(), priorityPrefix + tt.BackendName}
		if _, ok := model.LoadedVisitType(tt.Type); ok {
			for _, l := range listers {
				names = append(names, *l.FirstVisitsQueuePrefix+":"+tt.BackendName)
			}
		}
		for _, name := range names {
			known[name] = KnownQueue{Name: name, TaskType: tt.Type, Limit: limit}
		}
	}
	for _, q := range laned {
		for i, lane := range q.Lanes.Lanes {
			known[lane.Queue] = KnownQueue{lane.Queue, q.Lanes.TaskType, int64(lane.Slots), q.Lanes.Name, i, q.Lanes}
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b KnownQueue) int { return strings.Compare(a.Name, b.Name) }), nil
}
