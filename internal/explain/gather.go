package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// Gatherer reads the facts from the database, the configuration and the broker, and explains them.
type Gatherer struct {
	Store  *db.Store
	Config *config.Config
	Log    *slog.Logger
	Now    time.Time
	// Broker has the lengths of queues; if it is nil, NoBroker is the reason.
	Broker   dispatch.QueueLengths
	NoBroker error
	// SearchDepth is how many origins of a policy's order are searched for the origin; 0: 10,000.
	SearchDepth int
}

// queue reads the state of a queue from the broker. Without an answer, the reason becomes a fact.
func (x *Gatherer) queue(ctx context.Context, name string, limit *int64) Queue {
	q := Queue{Name: name, Limit: limit}
	if x.Broker == nil {
		q.Err = x.NoBroker
		return q
	}
	ctx, cancel := context.WithTimeout(ctx, serviceWait)
	defer cancel()
	length, err := x.Broker.LengthSince(ctx, name, x.Broker.Figures(ctx, name), 0)
	q.Ready, q.Working, q.Consumers = length.Ready, length.Unacknowledged, length.Consumers
	if err != nil {
		q.Err = pytext.OneLine(err)
	}
	return q
}

const serviceWait = 5 * time.Second

// sentTo returns the state of the queue that has, or gets, the message of some work: that of a lane if it was sent on
// one.
func (x *Gatherer) sentTo(ctx context.Context, lane *db.LanePlace, queue string, limit *int64) Queue {
	if lane == nil || !lane.Sent {
		return x.queue(ctx, queue, limit)
	}
	q := x.queue(ctx, lane.Queue, nil)
	q.OfLane = true
	return q
}

// Task explains a task.
func (x *Gatherer) Task(ctx context.Context, id int64) (Explanation, error) {
	e, err := x.task(ctx, id)
	if err != nil {
		return x.unreadableTask(ctx, id, err)
	}
	return e, nil
}

func (x *Gatherer) task(ctx context.Context, id int64) (Explanation, error) {
	tasks, err := x.Store.Tasks(ctx, []int64{id})
	if err != nil {
		return Explanation{}, err
	}
	if len(tasks) == 0 {
		return Explanation{}, fmt.Errorf("there is no task %d", id)
	}
	const mostAhead = 10_001
	t := Task{Task: tasks[0], AheadLimit: mostAhead, Ageing: x.Config.PriorityAgeing}
	for _, fact := range []func() error{
		func() (err error) { t.Type, err = x.Store.TaskType(ctx, t.Task.Type); return err },
		func() (err error) { t.LastRun, t.Message, err = x.lastRun(ctx, id); return err },
		func() (err error) {
			t.Ahead, err = x.Store.TasksAhead(ctx, id, x.Now, x.Config.PriorityAgeing, mostAhead)
			return err
		},
		func() (err error) { t.Graph, err = x.Store.GraphTask(ctx, id); return err },
		func() (err error) { t.SetAside, err = x.Store.SetAsideTask(ctx, id); return err },
		func() (err error) { t.WaitsFor, err = x.Store.UnmetDependencies(ctx, id, 10); return err },
		func() (err error) { t.Blockers, err = x.Store.Blockers(ctx, t.waitsFor()); return err },
		func() (err error) { t.EndsKnown, err = x.Store.EndsKnown(ctx, x.Now); return err },
		func() (err error) { t.Sending, err = x.Store.SendingSince(ctx); return err },
		func() (err error) { t.LastSweep, err = x.Store.SilentRuns(ctx); return err },
		func() (err error) { t.Runners, err = x.Store.ConnectedPrograms(ctx, t.runner()); return err },
		func() (err error) { t.Others, err = x.otherRunners(ctx, t.runner(), t.Task.Type); return err },
	} {
		if err := fact(); err != nil {
			return Explanation{}, err
		}
	}
	if t.LastRun != nil && t.LastRun.BackendID != nil {
		if t.Lane, err = x.Store.LanePlaceOf(ctx, *t.LastRun.BackendID); err != nil {
			return Explanation{}, err
		}
		x.nameLane(t.Lane)
	}
	var known bool
	if t.LostAfter, known = x.Config.LostAfter[t.Task.Type]; !known {
		t.LostAfter = x.Config.LostAfter["default"]
	}
	queue, laneSet := t.Type.Queue(), t.Task.Type
	if t.Task.Priority != "" {
		queue, laneSet = model.PriorityLanes(t.Type.BackendName), model.PriorityLanes(laneSet)
	}
	t.Lanes = x.laned(laneSet)
	if t.Task.Priority == "" { // queues of tasks with priority are not divided
		t.Share, err = x.share(ctx, t.Type, func(by model.ShareKey) (string, error) {
			if by == model.ShareByTaskType {
				return t.Task.Type, nil
			}
			return x.Store.GroupOfTask(ctx, id, by)
		})
		if err != nil {
			return Explanation{}, err
		}
	}
	t.Queue = x.sentTo(ctx, t.Lane, queue, t.Type.MaxQueueLength)
	return t.Explain(x.Now), nil
}

// share returns the state of a group of a task type's queue, or nil if the queue is not shared. The shares may be
// configured for that type or, if task types are the groups, for another type with the same queue.
func (x *Gatherer) share(ctx context.Context, tt model.TaskType, group func(by model.ShareKey) (string, error)) (*Share, error) {
	for _, name := range slices.Sorted(maps.Keys(x.Config.Shares)) {
		s := x.Config.Shares[name]
		if name != tt.Type {
			if s.By != model.ShareByTaskType {
				continue
			}
			named, err := x.Store.TaskType(ctx, name)
			if err != nil && !errors.Is(err, model.ErrUnknownTaskType) {
				return nil, err
			}
			if err != nil || named.Queue() != tt.Queue() {
				continue
			}
		}
		states, err := x.Store.ShareStates(ctx, tt.Queue(), x.Now, s.HalfLife)
		if err != nil {
			return nil, err
		}
		share := &Share{TaskType: name, By: s.By}
		if share.Group, err = group(s.By); err != nil {
			return nil, err
		}
		if state := states[share.Group]; state != nil {
			share.InFlight = state.InFlight
		}
		share.MaxInFlight, share.Priority = s.MaxInFlight[share.Group], s.Priorities[share.Group]
		return share, nil
	}
	return nil, nil
}

// laned returns laneSet if the configuration has it, or "".
func (x *Gatherer) laned(laneSet string) string {
	if len(x.Config.Lanes[laneSet]) == 0 {
		return ""
	}
	return laneSet
}

// nameLane sets the name of the lane in whose backlog work waits. The ledger has these names only for work that was
// sent.
func (x *Gatherer) nameLane(p *db.LanePlace) {
	if p == nil || p.Sent {
		return
	}
	p.LaneName = fmt.Sprintf("number %d", p.Lane+1)
	if lanes := x.Config.Lanes[p.LaneSet]; len(lanes) > 0 {
		p.LaneName = lanes[min(int(p.Lane), len(lanes)-1)].Name
	}
}

// lastRun returns a task's last run and, if it is still outgoing, the run's message.
func (x *Gatherer) lastRun(ctx context.Context, task int64) (*model.TaskRun, *db.WaitingMessage, error) {
	last, err := x.Store.LastTaskRun(ctx, task)
	if err != nil || last == nil || last.BackendID == nil {
		return last, nil, err
	}
	message, err := x.Store.WaitingMessageOf(ctx, *last.BackendID, x.Now)
	return last, message, err
}

// unreadableTask explains why a task can't be read, if it is set aside or has infinite dates. Otherwise it returns
// cause.
func (x *Gatherer) unreadableTask(ctx context.Context, id int64, cause error) (Explanation, error) {
	e := Explanation{Subject: fmt.Sprintf("Task %d", id), now: x.Now}
	aside, err := x.Store.SetAsideTask(ctx, id)
	if err != nil {
		return Explanation{}, errors.Join(cause, err)
	}
	if aside != nil {
		e.isSetAside(*aside)
		return e, nil
	}
	dates, err := x.Store.InfiniteDates(ctx, id, "")
	if err != nil || len(dates) == 0 {
		return Explanation{}, errors.Join(cause, err)
	}
	e.hasInfinite(dates)
	e.because("To give the task another next_run: \"swh-scheduler task respawn %d\".", id)
	return e, nil
}

// unreadableOrigin explains why an origin can't be read, if it has infinite dates. Otherwise it returns cause.
func (x *Gatherer) unreadableOrigin(ctx context.Context, url string, cause error) ([]Explanation, error) {
	dates, err := x.Store.InfiniteDates(ctx, 0, url)
	if err != nil || len(dates) == 0 {
		return nil, errors.Join(cause, err)
	}
	e := Explanation{Subject: url, now: x.Now}
	e.hasInfinite(dates)
	return []Explanation{e}, nil
}

// Origins explains an origin for each lister and visit type; visitType "" is all.
func (x *Gatherer) Origins(ctx context.Context, url, visitType string) ([]Explanation, error) {
	all, err := x.origins(ctx, url, visitType)
	if err != nil {
		return x.unreadableOrigin(ctx, url, err)
	}
	return all, nil
}

func (x *Gatherer) origins(ctx context.Context, url, visitType string) ([]Explanation, error) {
	all, err := x.listedOrigins(ctx, url, visitType)
	if err != nil || len(all) > 0 {
		return all, err
	}
	if all, err = x.unlistedOrigins(ctx, url, visitType); err != nil || len(all) > 0 {
		return all, err
	}
	what := url
	if visitType != "" {
		what += " with visit type " + visitType
	}
	near, _, err := x.Store.ListedOrigins(ctx, origins.ListedOriginFilter{URLs: spellings(url)})
	if err == nil && len(near) > 0 {
		return nil, fmt.Errorf("no lister lists %s, and no visit of it is known; did you mean %s?", what, near[0].URL)
	}
	return nil, fmt.Errorf("no lister lists %s, and no visit of it is known", what)
}

// spellings returns other common URLs of the same origin: with another scheme or none, with and without .git and a
// slash.
func spellings(url string) (all []string) {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		rest = url
	}
	rest = strings.TrimSuffix(strings.TrimSuffix(rest, "/"), ".git")
	for _, scheme := range []string{"https", "http", "git", "svn"} {
		for _, end := range []string{"", ".git", "/"} {
			if other := scheme + "://" + rest + end; other != url {
				all = append(all, other)
			}
		}
	}
	return all
}

// listedOrigins explains an origin for each lister that lists it, even if the listing is set aside.
func (x *Gatherer) listedOrigins(ctx context.Context, url, visitType string) (all []Explanation, err error) {
	aside, err := x.Store.SetAsideOrigins(ctx, url)
	if err != nil {
		return nil, err
	}
	listed, _, err := x.Store.ListedOrigins(ctx, origins.ListedOriginFilter{URLs: []string{url}})
	if err != nil && len(aside) == 0 {
		return nil, err
	}
	schedulers, err := x.Store.ConnectedPrograms(ctx, "schedule-recurrent")
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool) // subjects that are set aside
	for _, s := range aside {
		if visitType == "" || s.VisitType == visitType {
			e := Explanation{Subject: originSubject(url, s.VisitType, model.Lister{Name: s.Lister, InstanceName: s.InstanceName}), now: x.Now}
			e.isSetAside(db.SetAside{Reason: s.Reason, Since: s.Since, Until: s.Until})
			all = append(all, e)
			known[e.Subject] = true
		}
	}
	for _, l := range listed {
		if visitType != "" && l.VisitType != visitType {
			continue
		}
		o := Origin{URL: url, VisitType: l.VisitType, Listed: &l, Schedulers: schedulers}
		if err := x.originFacts(ctx, &o); err != nil {
			return nil, err
		}
		if e := o.Explain(x.Now); !known[e.Subject] {
			all = append(all, e)
		}
	}
	return all, nil
}

// unlistedOrigins explains an origin that no lister lists, for each visit type with stats.
func (x *Gatherer) unlistedOrigins(ctx context.Context, url, visitType string) (all []Explanation, err error) {
	visitTypes := []string{visitType}
	if visitType == "" {
		types, err := x.Store.TaskTypes(ctx)
		if err != nil {
			return nil, err
		}
		visitTypes = nil
		for _, tt := range types {
			if t, ok := model.LoadedVisitType(tt.Type); ok {
				visitTypes = append(visitTypes, t)
			}
		}
	}
	for _, t := range visitTypes {
		o := Origin{URL: url, VisitType: t}
		if err := x.originFacts(ctx, &o); err != nil {
			return nil, err
		}
		if o.Stats != nil {
			all = append(all, o.Explain(x.Now))
		}
	}
	return all, nil
}

// hosters returns the hosters of a listed origin that have a limit. It sets Refused.
func (x *Gatherer) hosters(ctx context.Context, o *Origin) (limited []Hoster, err error) {
	limits := x.Config.Hosters
	if !limits.Any() {
		return nil, nil
	}
	names := []string{model.ListerGroup(model.ShareByListerInstance, o.Lister), model.HostOf(o.URL)}
	loads, err := x.Store.HosterLoads(ctx, limits, names, x.Now)
	if err != nil {
		return nil, err
	}
	refusing := map[string]refusals.State{}
	if limits.Backoff != nil {
		if refusing, err = x.Store.RefusingHosters(ctx, x.Now); err != nil {
			return nil, err
		}
		o.Refused, err = x.Store.WaitingRefusal(ctx, model.OriginKey{URL: o.URL, VisitType: o.VisitType})
	}
	for _, name := range names {
		limit, state := limits.Limit(name), refusing[name]
		if !limits.BacksOff(name) {
			state = refusals.State{}
		}
		if limit.Limited() || state.Hoster != "" {
			limited = append(limited, Hoster{name, limit, loads[name], state})
		}
	}
	return limited, err
}

// originFacts reads the facts about an origin; if it is enabled, also those that decide when it is visited.
func (x *Gatherer) originFacts(ctx context.Context, o *Origin) error {
	if err := x.visitFacts(ctx, o); err != nil {
		return err
	}
	loader, err := x.Store.TaskType(ctx, model.LoaderTaskType(o.VisitType))
	switch {
	case errors.Is(err, model.ErrUnknownTaskType):
	case err != nil:
		return err
	default:
		o.Loader = &loader
		if o.Message, err = x.Store.WaitingVisit(ctx, loader.BackendName, o.URL, x.Now); err != nil {
			return err
		}
		if o.Lane, err = x.Store.LanePlaceOfVisit(ctx, o.URL, o.VisitType); err != nil {
			return err
		}
		x.nameLane(o.Lane)
		o.Lanes = x.laned(loader.Type)
		if o.Listed != nil && o.Listed.Enabled || o.pending() {
			o.Queue = x.sentTo(ctx, o.Lane, loader.BackendName, loader.MaxQueueLength)
		}
	}
	if o.Listed == nil {
		return nil
	}
	listers, err := x.Store.ListersByID(ctx, []uuid.UUID{o.Listed.ListerID})
	if err != nil {
		return err
	}
	if len(listers) > 0 {
		o.Lister = listers[0]
	}
	if !o.Listed.Enabled {
		o.Gone, err = x.Store.GoneOrigin(ctx, *o.Listed)
		return err
	}
	if o.Loader == nil {
		return nil
	}
	if o.Hosters, err = x.hosters(ctx, o); err != nil {
		return err
	}
	o.Share, err = x.share(ctx, loader, func(by model.ShareKey) (string, error) { return model.ListerGroup(by, o.Lister), nil })
	if err != nil {
		return err
	}
	if o.Share != nil && !o.Share.By.OfVisits() { // only tasks are divided
		o.Share = nil
	}
	return x.policies(ctx, o)
}

// visitFacts reads the results of an origin's visits.
func (x *Gatherer) visitFacts(ctx context.Context, o *Origin) error {
	key := model.OriginKey{URL: o.URL, VisitType: o.VisitType}
	stats, err := x.Store.VisitStats(ctx, []model.OriginKey{key})
	if err != nil {
		return err
	}
	if len(stats) > 0 {
		o.Stats = &stats[0]
	}
	if err := x.hintFacts(ctx, o); err != nil {
		return err
	}
	if model.HasFreshness(x.Config.SchedulingPolicy) {
		fresh, err := x.Store.OriginFreshness(ctx, []model.OriginKey{key})
		if err != nil {
			return err
		}
		if len(fresh) > 0 {
			o.Freshness = &fresh[0]
		}
	}
	o.Rules = x.Config.VisitRules
	if o.Failure, err = x.Store.LastFailureOfVisit(ctx, key); err != nil {
		return err
	}
	o.Failures, err = x.Store.FailuresInARow(ctx, key)
	return err
}

// policies finds the origin's place in the order of each policy of its visit type that can pick it.
func (x *Gatherer) policies(ctx context.Context, o *Origin) error {
	policies := model.PoliciesOf(x.Config.SchedulingPolicy, o.VisitType)
	if o.Freshness != nil && !o.Freshness.Complete {
		policies = model.WithRest(policies)
	}
	for _, w := range model.ExpandPolicies(policies) {
		w.Filter.VisitType = o.VisitType
		p := Policy{WeightedPolicy: w}
		if o.isReady(w.Filter, x.Now) {
			all := w.Filter
			all.TableSample = 0
			err := x.Store.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				p.VisitPlace, err = tx.PlaceOfVisit(ctx, all, x.Now, *o.Listed, cmp.Or(x.SearchDepth, deepest))
				return err
			})
			if err != nil {
				return err
			}
		}
		o.Policies = append(o.Policies, p)
	}
	return nil
}
