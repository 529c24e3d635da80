package sql

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// ShareState is what is known of one group of a queue. Amounts of work are in
// seconds. Used, Pieces and Forgone count half as much after each half-life.
type ShareState struct {
	Group   string
	Used    float64 // work that ended
	Pieces  float64 // how many visits or runs of tasks that was
	Forgone float64 // what it did not use while it had nothing to do
	Busy    bool    // the last claim left some of its work waiting

	InFlight     int     // visits or runs underway: claimed, and their end not heard of
	Started      int     // those of them that are known to have begun
	InFlightLoad float64 // what they count for
}

// shareHistoryKept is how long the minutes of the history are kept.
const shareHistoryKept = 3 * time.Hour

// forgottenAfter is how many half-lives a group without work is remembered for.
const forgottenAfter = 20

// Shares counts what was charged to the groups of a queue since the last claim,
// and returns what is known of each as of now. The queue's lock is held.
func (tx *Tx) Shares(ctx context.Context, queue string, now time.Time, halfLife time.Duration) (map[string]*ShareState, error) {
	states, err := tx.shareStates(ctx, queue, now, halfLife)
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

// ShareStates is what is known of the groups of a queue as of now. Work whose end
// was heard of since the last claim is not counted as used yet.
func (a asker) ShareStates(ctx context.Context, queue string, now time.Time, halfLife time.Duration) (map[string]*ShareState, error) {
	return a.shareStates(ctx, queue, now, halfLife)
}

func (a asker) shareStates(ctx context.Context, queue string, now time.Time, halfLife time.Duration) (map[string]*ShareState, error) {
	known, err := a.q.GroupsOfQueue(ctx, queue)
	if err != nil {
		return nil, err
	}
	states := make(map[string]*ShareState, len(known))
	for _, k := range known {
		s := state(states, k.ShareGroup)
		left := remaining(now.Sub(k.AsOf), halfLife)
		s.Used, s.Pieces, s.Forgone, s.Busy = k.Used*left, k.Pieces*left, k.Forgone*left, k.Busy
	}
	underway, err := a.q.InFlightByGroup(ctx, queries.InFlightByGroupParams{Queue: queue, Now: now})
	if err != nil {
		return nil, err
	}
	for _, u := range underway {
		s := state(states, u.ShareGroup)
		s.InFlight, s.Started, s.InFlightLoad = int(u.Pieces), int(u.Started), u.Load
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

// remaining is how much of an amount counts after a time.
func remaining(after, halfLife time.Duration) float64 {
	return math.Exp2(-max(0, after.Seconds()) / halfLife.Seconds())
}

// SaveShares writes what Shares returned, with what a claim has changed since,
// and forgets groups that have been without work for long. The queue's lock is
// held.
func (tx *Tx) SaveShares(ctx context.Context, queue string, now time.Time, states map[string]*ShareState) error {
	p := queries.SaveSharesParams{Queue: queue, AsOf: now}
	var forget []string
	negligible := math.Exp2(-forgottenAfter)
	for _, s := range states {
		if !s.Busy && s.InFlight == 0 && s.Used+s.Forgone+s.Pieces < negligible {
			forget = append(forget, s.Group)
			continue
		}
		p.Groups = append(p.Groups, s.Group)
		p.Used = append(p.Used, s.Used)
		p.Pieces = append(p.Pieces, s.Pieces)
		p.Forgone = append(p.Forgone, s.Forgone)
		p.Busy = append(p.Busy, s.Busy)
	}
	if len(forget) > 0 {
		if err := tx.q.ForgetShares(ctx, queries.ForgetSharesParams{Queue: queue, Groups: forget}); err != nil {
			return err
		}
	}
	return tx.q.SaveShares(ctx, p)
}

// ShareUse is what a group used in a time.
type ShareUse struct {
	Seconds float64
	Pieces  int
}

// ShareHistory is what the groups of a queue used since a moment, at most three
// hours ago, by whole minutes.
func (a asker) ShareHistory(ctx context.Context, queue string, since time.Time) (map[string]ShareUse, error) {
	rows, err := a.q.ShareHistory(ctx, queries.ShareHistoryParams{Queue: queue, Since: since})
	if err != nil {
		return nil, err
	}
	used := make(map[string]ShareUse, len(rows))
	for _, r := range rows {
		used[r.ShareGroup] = ShareUse{Seconds: r.Seconds, Pieces: int(r.Pieces)}
	}
	return used, nil
}

// InFlight is a visit or run of a task that was claimed for a group.
type InFlight struct {
	TaskID  uuid.UUID // Celery's
	Queue   string
	Group   string
	Cost    float64 // seconds of work expected
	Claimed time.Time
}

// RecordInFlight notes what was claimed, in the transaction that claims it.
func (tx *Tx) RecordInFlight(ctx context.Context, claimed []InFlight) error {
	rows := make([]queries.RecordInFlightParams, len(claimed))
	for i, c := range claimed {
		rows[i] = queries.RecordInFlightParams{TaskID: c.TaskID, Queue: c.Queue, ShareGroup: c.Group, Cost: c.Cost, Claimed: c.Claimed}
	}
	_, err := tx.q.RecordInFlight(ctx, rows)
	return err
}

// GiveUpInFlight gives up work whose end will not be heard of, and charges what it
// was expected to be: what was claimed before lostBefore; and the oldest of what
// was claimed before unheardBefore and is not known to have begun, as far as that
// is more than the waiting messages of the queue.
func (s *Store) GiveUpInFlight(ctx context.Context, queue string, now time.Time, waiting int, unheardBefore, lostBefore time.Time) error {
	if err := s.q.ForgetShareEnded(ctx, unheardBefore); err != nil {
		return err
	}
	return s.q.GiveUpInFlight(ctx, queries.GiveUpInFlightParams{
		Queue: queue, Now: now, Waiting: int64(waiting), UnheardBefore: unheardBefore, LostBefore: lostBefore,
	})
}

// VisitListers lists the listers that have origins of a visit type to visit.
func (a asker) VisitListers(ctx context.Context, visitType string) ([]scheduler.Lister, error) {
	rows, err := a.q.GroupedListers(ctx, visitType)
	if err != nil {
		return nil, err
	}
	listers := make([]scheduler.Lister, len(rows))
	for i, r := range rows {
		listers[i] = scheduler.Lister{ID: r.ID, Name: r.Name, InstanceName: r.InstanceName}
	}
	return listers, nil
}

// maxWaiting bounds what WaitingByGroup counts of a group.
const maxWaiting = 10_000

// WaitingByGroup counts what could be claimed for the queue of a task type now, by
// group, up to 10,000 of each: ready tasks without priority, and for a type that
// loads something origins to visit.
func (s *Store) WaitingByGroup(ctx context.Context, tt scheduler.TaskType, by scheduler.ShareKey, now time.Time) (map[string]int, error) {
	waiting := make(map[string]int)
	if visitType, ok := scheduler.LoadedVisitType(tt.Type); ok && by.OfVisits() {
		listers, err := s.VisitListers(ctx, visitType)
		if err != nil {
			return nil, err
		}
		groups := make(map[string][]uuid.UUID)
		for _, l := range listers {
			group := scheduler.ListerGroup(by, l)
			groups[group] = append(groups[group], l.ID)
		}
		for group, ids := range groups {
			n, err := s.q.WaitingVisits(ctx, queries.WaitingVisitsParams{VisitType: visitType, Listers: ids, Now: now, Bound: maxWaiting})
			if err != nil {
				return nil, err
			}
			waiting[group] += int(n)
		}
	}
	return waiting, s.waitingTasks(ctx, tt, by, now, waiting)
}

// waitingTasks adds the ready tasks.
func (s *Store) waitingTasks(ctx context.Context, tt scheduler.TaskType, by scheduler.ShareKey, now time.Time, waiting map[string]int) error {
	return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		claims, err := tx.sharingTypes(ctx, tt, by, now)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			groups := []string{claim.Type.Type}
			if by != scheduler.ShareByTaskType {
				if groups, err = tx.ReadyTaskGroups(ctx, claim, by); err != nil {
					return err
				}
			}
			for _, group := range groups {
				n, err := tx.countReadyTasks(ctx, claim, by, group)
				if err != nil {
					return err
				}
				waiting[group] = min(waiting[group]+n, maxWaiting)
			}
		}
		return nil
	})
}

// sharingTypes are the types that share the queue of a type: itself, or where
// types are the groups all of its queue.
func (tx *Tx) sharingTypes(ctx context.Context, tt scheduler.TaskType, by scheduler.ShareKey, now time.Time) ([]TaskClaim, error) {
	if by != scheduler.ShareByTaskType {
		return []TaskClaim{{Type: tt, Now: now}}, nil
	}
	all, err := tx.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var claims []TaskClaim
	for _, other := range all {
		if other.Queue() == tt.Queue() {
			claims = append(claims, TaskClaim{Type: other, Now: now})
		}
	}
	return claims, nil
}
