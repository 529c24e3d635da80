package daemons

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// dividing returns the components of a daemon of visits that divide its work between groups, lanes
// and hosters: see sharing, laning and hosting.
func (o *Options) dividing(ctx context.Context, store *db.Store, d *dispatcher, visits bool) ([]service.Component, error) {
	sharing, err := o.sharing(ctx, store, visits)
	if err != nil {
		return nil, err
	}
	laning, err := o.laning(ctx, store, d)
	if err != nil {
		return nil, err
	}
	hosting, err := o.hosting(ctx, store)
	return slices.Concat(hosting, []service.Component{sharing}, laning), err
}

// sharing checks that the database is ready for the configured shares, warns of unknown
// names, and returns the component that measures shares: the tasks that wait and, if the process
// sends them, the visits.
func (o *Options) sharing(ctx context.Context, store *db.Store, visits bool) (service.Component, error) {
	c := o.Config
	err := o.patiently(ctx, store, func(ctx context.Context) error {
		if len(c.Shares) == 0 {
			return nil
		}
		if err := store.CheckShares(ctx, c.Shares); err != nil {
			return err
		}
		return o.warnOfShares(ctx, store, c.Shares)
	})
	policies := c.SchedulingPolicy
	if !visits {
		policies = nil
	}
	gauges := dispatch.NewShareGauges(store, func(ctx context.Context) ([]dispatch.SharedQueue, error) {
		return sharedQueues(ctx, store, c.Shares, policies)
	}, o.Log, o.Metrics)
	return service.Component{Name: "gauges of shares", Run: gauges.Run}, err
}

// sharedQueues returns the queues that groups share, in the order of their task types.
func sharedQueues(ctx context.Context, store *db.Store, shares map[string]model.Shares, policies map[string][]model.WeightedPolicy) ([]dispatch.SharedQueue, error) {
	if len(shares) == 0 {
		return nil, nil
	}
	types, err := store.TaskTypes(ctx)
	var queues []dispatch.SharedQueue
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if tt, prefix, ok := model.TypeOf(name, types); ok {
			q := dispatch.SharedQueue{Name: tt.QueueWith(prefix), Shares: shares[name]}
			if prefix == "" {
				q.Type, q.Policies = &tt, policies
			}
			queues = append(queues, q)
		}
	}
	return queues, err
}

// hosting warns of instances of listers that are not there and returns the component that
// measures hosters; none without limits.
func (o *Options) hosting(ctx context.Context, store *db.Store) ([]service.Component, error) {
	if !o.Config.Hosters.Any() {
		return nil, nil
	}
	var known []string
	err := o.patiently(ctx, store, func(ctx context.Context) error {
		listers, err := store.Listers(ctx)
		known = groupsThatCanBe(model.ShareByListerInstance, nil, listers)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, hoster := range slices.Sorted(maps.Keys(o.Config.Hosters.Limits)) {
		if model.IsInstance(hoster) && !slices.Contains(known, hoster) {
			o.warnOfName("hosters limit an instance of a lister that is not there", hoster, known)
		}
	}
	gauges := dispatch.NewHosterGauges(store, o.Config.Hosters, o.Log, o.Metrics)
	return []service.Component{{Name: "gauges of hosters", Run: gauges.Run}}, nil
}

// warnOfShares warns of task types and groups that are not there.
func (o *Options) warnOfShares(ctx context.Context, store *db.Store, shares map[string]model.Shares) error {
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return err
	}
	listers, err := store.Listers(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if _, _, ok := model.TypeOf(name, types); !ok {
			o.warnOfName("shares are configured for a task type that is not there", name, typeNames(types))
			continue
		}
		known := groupsThatCanBe(shares[name].By, types, listers)
		for _, group := range slices.Sorted(maps.Keys(shares[name].Weights)) {
			if known != nil && !slices.Contains(known, group) {
				o.warnOfName("shares give a weight to a group that is not there", group, known)
			}
		}
	}
	return nil
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

// laning warns of lanes of unknown task types and returns the component that sends to lanes; none without
// lanes.
func (o *Options) laning(ctx context.Context, store *db.Store, d *dispatcher) ([]service.Component, error) {
	lanes := o.Config.Lanes
	if len(lanes) == 0 {
		return nil, nil
	}
	err := o.patiently(ctx, store, func(ctx context.Context) error {
		types, err := store.TaskTypes(ctx)
		if err != nil {
			return err
		}
		names := typeNames(types)
		for _, laneSet := range slices.Sorted(maps.Keys(lanes)) {
			if tt, _, ok := model.TypeOf(laneSet, types); !ok {
				o.warnOfName("lanes are configured for a task type that is not there", laneSet, names)
			} else if r := o.Config.Celery.Sending.Route(tt.BackendName); r != nil && r.Exchange != "" {
				return fmt.Errorf("the lanes of %s can't work, as celery.task_routes sends its messages to the exchange %q: remove one of both", laneSet, r.Exchange)
			}
		}
		// Before work may come into their backlogs.
		return store.SeeLaneSets(ctx, slices.Collect(maps.Keys(lanes)), store.Now())
	})
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{
		Store: store, Slots: d.slots, Log: o.Log, Reg: o.Metrics, Listen: store.Listener(db.LaneChannel),
		Queues: func(ctx context.Context) ([]dispatch.Queue, error) { return LanedQueues(ctx, store, lanes) },
	})
	return []service.Component{{Name: "lanes", Run: pump.Run}}, err
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
		if tt, prefix, ok := model.TypeOf(laneSet, types); ok {
			queues = append(queues, dispatch.Queue{Name: tt.QueueWith(prefix), Limit: tt.MaxQueueLength}.WithLanes(laneSet, tt, lanes))
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
		names := []string{tt.Queue(), model.PriorityLanes(tt.BackendName)}
		if _, ok := model.LoadedVisitType(tt.Type); ok {
			names = append(names, tt.BackendName) // of its visits, whatever routes say
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
