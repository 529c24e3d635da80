package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/shares"
	"swh-scheduler/sql/db"
)

// SharedQueue is a queue whose work is divided between groups.
type SharedQueue struct {
	Name   string
	Shares model.Shares

	// For ShareGauges: the type whose own queue it is, nil for one with a prefix, and the policies, by
	// visit type, by which the process picks visits.
	Type     *model.TaskType
	Policies map[string][]model.WeightedPolicy
}

// Waiting says what a claim looked at, and what of it waits.
type Waiting struct {
	Groups []string // with work waiting
	Visits bool     // it looked at visits; otherwise at tasks
	Only   []string // the groups that it looked at; nil is all
}

// otherClaims is how long it counts that a claim of the other kind left work waiting.
const otherClaims = 10 * time.Minute

// since returns when a claim of the same kind left work of a group waiting, and one of the
// other kind.
func (w Waiting) since(s *db.ShareState) (same, other *float64) {
	if w.Visits {
		return &s.VisitsWaited, &s.TasksWaited
	}
	return &s.TasksWaited, &s.VisitsWaited
}

// busy reports whether the last claim of the same kind left work of a group waiting, or lately
// one of the other kind.
func (w Waiting) busy(s *db.ShareState, now time.Time) bool {
	same, other := w.since(s)
	return *same > 0 || *other > model.UnixSeconds(now.Add(-otherClaims))
}

// Ask is how many messages of a group are wanted, and their expected cost, in seconds.
type Ask = db.TaskGroup

// ShareOut divides free slots of a queue between the groups that have work waiting
// (see package shares), within a claim (Slots.Claim). It returns how much was claimed, and
// whether a group is at its ceiling.
// grab claims what is asked of some groups and returns how many of each there were; if
// fewer than asked, the group has no more, and its part goes to the others. Groups that the
// claim didn't look at keep their credit.
func ShareOut(ctx context.Context, tx *db.Tx, q SharedQueue, now time.Time, free int, waiting Waiting,
	grab func(ctx context.Context, asks []Ask) ([]int, error)) (claimed int, atCeiling bool, err error) {
	states, err := tx.Shares(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return 0, false, err
	}
	groups := join(states, q.Shares, waiting, now)
	atCeiling = len(groups) < len(waiting.Groups)
	for claimed < free && len(groups) > 0 {
		asks := asks(groups, shares.Divide(free-claimed, groups), q.Shares)
		given, err := grab(ctx, asks)
		if err != nil {
			return 0, false, err
		}
		for i, ask := range asks {
			claimed += given[i]
			at := slices.IndexFunc(groups, func(g shares.Group) bool { return g.Name == ask.Name })
			g := &groups[at]
			full := given[i] == g.Most && g.Most > 0
			g.Load += float64(given[i]) * ask.Cost
			g.Most = max(0, g.Most-given[i])
			states[ask.Name].InFlight += given[i]
			atCeiling = atCeiling || full
			if full || given[i] < ask.Count {
				groups = slices.Delete(groups, at, at+1)
			}
		}
	}
	for name, s := range states {
		if waiting.Only == nil || slices.Contains(waiting.Only, name) {
			same, _ := waiting.since(s)
			*same = 0
		}
	}
	for _, g := range groups { // those left still have work waiting
		same, _ := waiting.since(states[g.Name])
		*same = model.UnixSeconds(now)
	}
	return claimed, atCeiling, tx.SaveShares(ctx, q.Name, now, states)
}

// ShareVisits sets the groups of visits that ShareOut did not choose, such as those sent by
// hand.
func ShareVisits(ctx context.Context, tx *db.Tx, q SharedQueue, visits []Visit, now time.Time) error {
	listers, err := listersOf(ctx, tx, Origins(visits))
	if err != nil {
		return err
	}
	shareOf, err := sharesOf(ctx, tx, q, now)
	if err != nil {
		return err
	}
	for i, v := range visits {
		visits[i].Share = shareOf(model.ListerGroup(q.Shares.By, listers[v.Origin.ListerID]))
	}
	return nil
}

// ShareWork sets the groups of other messages of a task type, by their keyword arguments.
func ShareWork(ctx context.Context, tx *db.Tx, q SharedQueue, taskType string, work []db.Work, now time.Time) error {
	shareOf, err := sharesOf(ctx, tx, q, now)
	if err != nil {
		return err
	}
	for i := range work {
		work[i].Share = shareOf(groupOf(q.Shares.By, taskType, work[i].Kwargs))
	}
	return nil
}

// sharesOf returns what makes the share of a message of a group.
func sharesOf(ctx context.Context, tx *db.Tx, q SharedQueue, now time.Time) (func(group string) db.Share, error) {
	states, err := tx.ShareStates(ctx, q.Name, now, q.Shares.HalfLife)
	mean := meanCost(states)
	return func(group string) db.Share {
		state := states[group]
		if state == nil {
			state = &db.ShareState{Group: group}
		}
		return db.Share{Shared: true, Group: group, Cost: costOf(state, mean), Priority: q.Shares.Priorities[group]}
	}, err
}

// groupOf returns the group of a task, as a claim has it.
func groupOf(by model.ShareKey, taskType string, kwargs json.RawMessage) string {
	if by == model.ShareByTaskType {
		return taskType
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(kwargs, &all) // other than objects have none
	if name, ok := by.Kwarg(); ok {
		return textArgument(all[name])
	}
	return model.ListerGroup(by, model.Lister{Name: textArgument(all["lister_name"]), InstanceName: textArgument(all["lister_instance_name"])})
}

// join returns the groups that take part in a division: those with work waiting that are
// below their ceilings, each at the level where it may start. It adds what they forfeit to
// states.
func join(states map[string]*db.ShareState, s model.Shares, waiting Waiting, now time.Time) []shares.Group {
	cost := meanCost(states)
	var groups, busy []shares.Group
	for _, name := range slices.Sorted(slices.Values(waiting.Groups)) {
		state := states[name]
		if state == nil {
			state = &db.ShareState{Group: name}
			states[name] = state
		}
		g := shares.Group{
			Name: name, Weight: s.Weight(name), Cost: costOf(state, cost),
			Load: state.Used + state.Forfeited + state.InFlightLoad,
		}
		if ceiling := s.MaxInFlight[name]; ceiling > 0 {
			if g.Most = ceiling - state.InFlight; g.Most <= 0 {
				continue
			}
		}
		groups = append(groups, g)
		if waiting.busy(state, now) {
			busy = append(busy, g)
		}
	}
	for i := range groups {
		if state := states[groups[i].Name]; !waiting.busy(state, now) {
			state.Forfeited += shares.Join(&groups[i], busy)
		}
	}
	return groups
}

func asks(groups []shares.Group, parts []int, s model.Shares) []Ask {
	asks := make([]Ask, 0, len(groups))
	for i, g := range groups {
		if parts[i] > 0 {
			asks = append(asks, Ask{Name: g.Name, Count: parts[i], Cost: g.Cost, Priority: s.Priorities[g.Name]})
		}
	}
	return asks
}

// meanCost returns what a message of a queue took lately, in seconds; 1 if nothing is
// known, so that groups are compared by their number of messages.
func meanCost(states map[string]*db.ShareState) float64 {
	var used, pieces float64
	for _, s := range states {
		used += s.Used
		pieces += s.Pieces
	}
	if used <= 0 || pieces <= 0 {
		return 1
	}
	return used / pieces
}

// costOf returns what a message of a group is expected to take, in seconds: what it took
// lately, averaged with one mean message of the queue, so that the first one heard of
// does not decide alone.
func costOf(s *db.ShareState, mean float64) float64 {
	return (s.Used + mean) / (s.Pieces + 1)
}
