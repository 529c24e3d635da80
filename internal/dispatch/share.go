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
}

// Ask is how many messages of a group are wanted, and their expected cost, in seconds.
type Ask = db.TaskGroup

// ShareOut divides free slots of a queue between the groups that have work waiting
// (see package shares), within a claim (Slots.Claim), and returns how much was claimed.
// grab claims what is asked of some groups and returns how many of each there were; if
// fewer than asked, the group has no more, and its part goes to the others.
func ShareOut(ctx context.Context, tx *db.Tx, q SharedQueue, now time.Time, free int, waiting []string,
	grab func(ctx context.Context, asks []Ask) ([]int, error)) (int, error) {
	states, err := tx.Shares(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return 0, err
	}
	groups := join(states, q.Shares, waiting)
	claimed := 0
	for claimed < free && len(groups) > 0 {
		asks := asks(groups, shares.Divide(free-claimed, groups))
		given, err := grab(ctx, asks)
		if err != nil {
			return 0, err
		}
		for i, ask := range asks {
			claimed += given[i]
			at := slices.IndexFunc(groups, func(g shares.Group) bool { return g.Name == ask.Name })
			groups[at].Load += float64(given[i]) * ask.Cost
			states[ask.Name].InFlight += given[i]
			if given[i] < ask.Count {
				groups = slices.Delete(groups, at, at+1)
			}
		}
	}
	for _, s := range states {
		s.Busy = false
	}
	for _, g := range groups { // those left still have work waiting
		states[g.Name].Busy = true
	}
	return claimed, tx.SaveShares(ctx, q.Name, now, states)
}

// ShareVisits sets the groups of visits to a shared queue that were not divided between
// them.
func ShareVisits(ctx context.Context, tx *db.Tx, q SharedQueue, visits []Visit, now time.Time) error {
	listers, err := listersOf(ctx, tx, originsOf(visits))
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

// ShareWork does for other messages of a task type, by their keyword arguments, what
// ShareVisits does for visits.
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
		return db.Share{Shared: true, Group: group, Cost: costOf(state, mean)}
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

// join returns the groups that take part in a division: those with work waiting, each at
// the level where it may start. It adds what they forgo to states.
func join(states map[string]*db.ShareState, s model.Shares, waiting []string) []shares.Group {
	cost := meanCost(states)
	groups := make([]shares.Group, len(waiting))
	var busy []shares.Group
	for i, name := range slices.Sorted(slices.Values(waiting)) {
		state := states[name]
		if state == nil {
			state = &db.ShareState{Group: name}
			states[name] = state
		}
		groups[i] = shares.Group{
			Name: name, Weight: s.Weight(name), Cost: costOf(state, cost),
			Load: state.Used + state.Forgone + state.InFlightLoad,
		}
		if state.Busy {
			busy = append(busy, groups[i])
		}
	}
	for i := range groups {
		if state := states[groups[i].Name]; !state.Busy {
			state.Forgone += shares.Join(&groups[i], busy)
		}
	}
	return groups
}

func asks(groups []shares.Group, parts []int) []Ask {
	asks := make([]Ask, 0, len(groups))
	for i, g := range groups {
		if parts[i] > 0 {
			asks = append(asks, Ask{Name: g.Name, Count: parts[i], Cost: g.Cost})
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
