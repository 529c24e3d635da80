package ledger

import (
	"context"
	"math"
	"time"

	"swh-scheduler/internal/shares"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// ShareState is the state of a queue's group. Amounts of work are in seconds. Used, Pieces and Forfeited
// decay with the half-life.
type ShareState struct {
	Group     string
	Used      float64 // ended work
	Pieces    float64 // ended visits or runs
	Forfeited float64 // its share that it did not use while it had no work

	// TasksWaited and VisitsWaited are the times, in seconds since 1970 UTC, at which a claim left tasks or
	// visits of the group waiting below its ceiling. 0: the last claim left none.
	TasksWaited, VisitsWaited float64

	InFlight     int     // claimed visits or runs without a known end
	Started      int     // those with a known start
	InFlightLoad float64 // their load: see shares.RunningCost
}

// Busy reports whether the last claim left work of the group waiting.
func (s *ShareState) Busy() bool { return s.TasksWaited > 0 || s.VisitsWaited > 0 }

const (
	shareHistoryKept = 3 * time.Hour
	forgottenAfter   = 20                // half-lives after which a group without work is deleted
	unusedSharesKept = 90 * postgres.Day // after the last claim for the queue
)

// Shares adds the charges since the last claim to the groups' usage, and returns the states as of now. The
// caller holds the queue's lock.
func (tx *Tx) Shares(ctx context.Context, queue string, now time.Time, halfLife time.Duration) (map[string]*ShareState, error) {
	states, err := tx.ShareStates(ctx, queue, now, halfLife)
	if err != nil {
		return nil, err
	}
	charges, err := tx.q.TakeCharges(ctx, queue)
	if err != nil {
		return nil, err
	}
	for _, c := range charges {
		s := state(states, c.ShareGroup)
		left := remaining(now.Sub(c.Heard), halfLife)
		s.Used += c.Seconds * left
		s.Pieces += float64(c.Pieces) * left
	}
	if len(charges) > 0 {
		err = tx.q.ForgetShareHistory(ctx, queries.ForgetShareHistoryParams{Queue: queue, Before: now.Add(-shareHistoryKept)})
	}
	return states, err
}

// ShareStates returns the states of a queue's groups as of now, without the charges since the last claim.
func (a Queries) ShareStates(ctx context.Context, queue string, now time.Time, halfLife time.Duration) (map[string]*ShareState, error) {
	known, err := a.q.GroupsOfQueue(ctx, queue)
	if err != nil {
		return nil, err
	}
	states := make(map[string]*ShareState, len(known))
	for _, k := range known {
		s := state(states, k.ShareGroup)
		left := remaining(now.Sub(k.AsOf), halfLife)
		s.Used, s.Pieces, s.Forfeited = k.Used*left, k.Pieces*left, k.Forfeited*left
		s.TasksWaited, s.VisitsWaited = k.TasksWaited, k.VisitsWaited
	}
	underway, err := a.q.InFlightByGroup(ctx, queries.InFlightByGroupParams{Queue: &queue, Now: now})
	if err != nil {
		return nil, err
	}
	for _, u := range underway {
		s := state(states, u.ShareGroup)
		s.InFlight, s.Started, s.InFlightLoad = int(u.Pieces), len(u.Costs), u.Waiting
		for i, cost := range u.Costs {
			s.InFlightLoad += shares.RunningCost(cost, u.Begun[i], halfLife.Seconds())
		}
	}
	return states, nil
}

func state(states map[string]*ShareState, group string) *ShareState {
	s := states[group]
	if s == nil {
		s = &ShareState{Group: group}
		states[group] = s
	}
	return s
}

// remaining returns the part of an amount that is left after a time.
func remaining(after, halfLife time.Duration) float64 {
	return math.Exp2(-max(0, after.Seconds()) / halfLife.Seconds())
}

// SaveShares writes the states, and deletes groups without work for long. The caller holds the queue's
// lock.
func (tx *Tx) SaveShares(ctx context.Context, queue string, now time.Time, states map[string]*ShareState) error {
	var known []*ShareState
	var forget []string
	negligible := math.Exp2(-forgottenAfter)
	for _, s := range states {
		if !s.Busy() && s.InFlight == 0 && s.Used+s.Forfeited+s.Pieces < negligible {
			forget = append(forget, s.Group)
		} else {
			known = append(known, s)
		}
	}
	p := stmt.Columns[queries.SaveSharesParams](known)
	p.Queue, p.AsOf = queue, now
	return stmt.InOrder(ctx,
		stmt.Keys(forget, func(ctx context.Context, groups []string) error {
			return tx.q.ForgetShares(ctx, queries.ForgetSharesParams{Queue: queue, Groups: groups})
		}),
		func(ctx context.Context) error { return tx.q.SaveShares(ctx, p) })
}

// ForgetUnusedShares deletes old history, and the rows of queues without a claim for long.
func (a Queries) ForgetUnusedShares(ctx context.Context, now time.Time) error {
	err := a.q.ForgetUnusedShares(ctx, queries.ForgetUnusedSharesParams{UnusedBefore: now.Add(-unusedSharesKept), HistoryBefore: now.Add(-shareHistoryKept)})
	return stmt.Failed(err, "forget unused shares")
}

// ShareUse is a group's usage over some time.
type ShareUse struct {
	Seconds float64
	Pieces  int
}

// ShareHistory returns the usage of a queue's groups since a moment, at most three hours ago, in whole
// minutes.
func (a Queries) ShareHistory(ctx context.Context, queue string, since time.Time) (map[string]ShareUse, error) {
	rows, err := a.q.ShareHistory(ctx, queries.ShareHistoryParams{Queue: queue, Since: since})
	used := make(map[string]ShareUse, len(rows))
	for _, r := range rows {
		used[r.ShareGroup] = ShareUse{Seconds: r.Seconds, Pieces: int(r.Pieces)}
	}
	return used, err
}

// Charges sums the ended work of groups.
type Charges map[groupOfQueue]*charge

type groupOfQueue struct{ Queue, Group string }

type charge struct {
	Seconds  float64
	Pieces   int
	Received time.Time
}

// Add charges a queue's group with seconds of work of ended messages.
func (c Charges) Add(queue, group string, seconds float64, pieces int, received time.Time) {
	key := groupOfQueue{queue, group}
	if c[key] == nil {
		c[key] = &charge{}
	}
	c[key].Seconds += seconds
	c[key].Pieces += pieces
	if received.After(c[key].Received) {
		c[key].Received = received
	}
}

// Each calls do with each group's charge.
func (c Charges) Each(do func(queue, group string, seconds float64, pieces int)) {
	for key, charge := range c {
		do(key.Queue, key.Group, charge.Seconds, charge.Pieces)
	}
}

func (tx *Tx) chargeShares(c Charges) stmt.Step {
	return stmt.Arrays(stmt.Entries(c), tx.q.ChargeShares)
}
