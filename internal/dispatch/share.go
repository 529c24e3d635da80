package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/shares"
	"swh-scheduler/sql"
)

// SharedQueue is a queue whose work is divided between groups.
type SharedQueue struct {
	Name   string
	Shares scheduler.Shares

	// Lanes, if not nil, are those by which its work goes to workers.
	Lanes *Lanes
}

// Ask is how much work of a group is wanted, and what each piece is expected to
// cost, in seconds.
type Ask struct {
	Group string
	Count int
	Cost  float64
}

// ShareOut divides free slots of a queue between the groups that have work waiting
// (see package shares). grab claims what is asked of some groups, notes it as
// underway, and returns how many of each there were; fewer than asked says that
// the group has no more, and its part goes to the others. ShareOut belongs into a
// claim (Slots.Claim), and returns how much was claimed.
func ShareOut(ctx context.Context, tx *sql.Tx, q SharedQueue, now time.Time, free int, waiting []string,
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
			at := slices.IndexFunc(groups, func(g shares.Group) bool { return g.Name == ask.Group })
			groups[at].Load += float64(given[i]) * ask.Cost
			states[ask.Group].InFlight += given[i]
			if given[i] < ask.Count {
				groups = slices.Delete(groups, at, at+1)
			}
		}
	}
	settled(states, groups)
	return claimed, tx.SaveShares(ctx, q.Name, now, states)
}

// EnqueueGroupedVisits does what EnqueueVisits does, for visits to a queue that groups
// of listers share which were not divided between them: each is noted as underway,
// as claimed at now, for its group.
func EnqueueGroupedVisits(ctx context.Context, tx *sql.Tx, q SharedQueue, taskName string, origins []scheduler.ListedOrigin, now time.Time) error {
	found, err := tx.ListersByID(ctx, listerIDs(origins))
	if err != nil {
		return err
	}
	groups := make(map[uuid.UUID]string, len(found))
	for _, l := range found {
		groups[l.ID] = scheduler.ListerGroup(q.Shares.By, l)
	}
	states, err := tx.ShareStates(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return err
	}
	mean := meanCost(states)
	visits := make([]SharedVisit, len(origins))
	for i, o := range origins {
		group := groups[o.ListerID]
		state := states[group]
		if state == nil {
			state = &sql.ShareState{Group: group}
		}
		visits[i] = SharedVisit{Origin: o, Group: group, Cost: costOf(state, mean)}
	}
	return EnqueueSharedVisits(ctx, tx, q.Name, taskName, visits, now)
}

// join makes the groups that take part in a division: those with work waiting,
// each at the level where it may start. It notes in states what they forgo.
func join(states map[string]*sql.ShareState, s scheduler.Shares, waiting []string) []shares.Group {
	cost := meanCost(states)
	groups := make([]shares.Group, len(waiting))
	var busy []shares.Group
	for i, name := range slices.Sorted(slices.Values(waiting)) {
		state := states[name]
		if state == nil {
			state = &sql.ShareState{Group: name}
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

// settled notes which groups still had work waiting when the slots were gone.
func settled(states map[string]*sql.ShareState, busy []shares.Group) {
	for _, s := range states {
		s.Busy = false
	}
	for _, g := range busy {
		states[g.Name].Busy = true
	}
}

func asks(groups []shares.Group, parts []int) []Ask {
	asks := make([]Ask, 0, len(groups))
	for i, g := range groups {
		if parts[i] > 0 {
			asks = append(asks, Ask{Group: g.Name, Count: parts[i], Cost: g.Cost})
		}
	}
	return asks
}

// meanCost is what a piece of work of a queue took lately, in seconds; 1 where
// nothing is known, so that groups are compared by the number of pieces.
func meanCost(states map[string]*sql.ShareState) float64 {
	var used, pieces float64
	for s := range maps.Values(states) {
		used += s.Used
		pieces += s.Pieces
	}
	if used <= 0 || pieces <= 0 {
		return 1
	}
	return used / pieces
}

// costOf is what a piece of a group's work is expected to take: what it took
// lately, with one average piece of the queue among it, so that the first one
// heard of does not decide alone.
func costOf(s *sql.ShareState, mean float64) float64 {
	return (s.Used + mean) / (s.Pieces + 1)
}
