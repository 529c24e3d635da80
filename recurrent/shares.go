package recurrent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// claimShared picks up to free origins, divided between the groups of listers that
// share the queue, and writes their messages to the outbox.
func (r *round) claimShared(ctx context.Context, tx *sql.Tx, tt scheduler.TaskType, shares scheduler.Shares, free int) (int, error) {
	now := r.now()
	queue := dispatch.SharedQueue{Name: tt.BackendName, Shares: shares}
	visits, picked, err := r.picker().PickShared(ctx, tx, queue, now, free)
	if err != nil || len(visits) == 0 {
		return 0, err
	}
	r.count(picked)
	mix(visits)
	return len(visits), dispatch.EnqueueSharedVisits(ctx, tx, tt.BackendName, tt.BackendName, visits, now)
}

// PickShared does what Pick does, with the slots divided between the groups of
// listers that share the queue, whose lock is held.
func (p Picker) PickShared(ctx context.Context, tx *sql.Tx, queue dispatch.SharedQueue, now time.Time, slots int) ([]dispatch.SharedVisit, Picked, error) {
	listers, err := tx.VisitListers(ctx, p.VisitType)
	if err != nil {
		return nil, Picked{}, err
	}
	s := sharedPick{Picker: p, tx: tx, now: now, groups: groupListers(queue.Shares.By, listers), taken: make(map[visitKey]bool)}
	if s.policies, err = p.weigh(ctx, tx); err != nil {
		return nil, Picked{}, err
	}
	s.got = make([]int, len(s.policies))
	waiting := make([]string, 0, len(s.groups))
	for group := range s.groups {
		waiting = append(waiting, group)
	}
	if _, err := dispatch.ShareOut(ctx, tx, queue, now, slots, waiting, s.grab); err != nil {
		return nil, Picked{}, err
	}
	picked := Picked{Policies: s.policies, Got: s.got}
	for _, v := range s.picked {
		picked.Origins = append(picked.Origins, v.Origin)
	}
	return s.picked, picked, nil
}

// groupListers puts listers into groups.
func groupListers(by scheduler.ShareKey, listers []scheduler.Lister) map[string][]uuid.UUID {
	groups := make(map[string][]uuid.UUID)
	for _, l := range listers {
		group := scheduler.ListerGroup(by, l)
		groups[group] = append(groups[group], l.ID)
	}
	return groups
}

// sharedPick is the picking of one round's origins for groups.
type sharedPick struct {
	Picker
	tx       *sql.Tx
	now      time.Time
	policies []scheduler.WeightedPolicy
	groups   map[string][]uuid.UUID

	picked []dispatch.SharedVisit
	taken  map[visitKey]bool
	got    []int // by policy
}

// grab picks what is asked of each group: within a group the policies' weights
// hold, as they do without shares. One query a policy serves all groups.
func (p *sharedPick) grab(ctx context.Context, asks []dispatch.Ask) ([]int, error) {
	fills := make([]*filling, len(asks))
	for i, ask := range asks {
		fills[i] = newFilling(ask.Count, weights(p.policies))
	}
	for {
		parts := make([][]int, len(asks)) // by group and policy
		more := false
		for i, f := range fills {
			parts[i] = f.next()
			more = more || parts[i] != nil
		}
		if !more {
			break
		}
		for policy := range p.policies {
			if err := p.grabBy(ctx, policy, asks, parts, fills); err != nil {
				return nil, err
			}
		}
	}
	given := make([]int, len(asks))
	for i, f := range fills {
		given[i] = f.total()
		for policy, n := range f.got {
			p.got[policy] += n
		}
	}
	return given, nil
}

// grabBy picks by one policy what the groups want of it.
func (p *sharedPick) grabBy(ctx context.Context, policy int, asks []dispatch.Ask, parts [][]int, fills []*filling) error {
	var wanted []sql.VisitGroup
	var of []int // the place in asks, by place in wanted
	for i, part := range parts {
		if part != nil && part[policy] > 0 {
			wanted = append(wanted, sql.VisitGroup{Listers: p.groups[asks[i].Group], Count: part[policy]})
			of = append(of, i)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	filter := p.policies[policy].Filter
	filter.VisitType = p.VisitType
	visits, err := p.tx.GrabGroupedVisits(ctx, filter, p.now, wanted)
	if err != nil {
		return err
	}
	fresh := make([]int, len(wanted))
	for _, v := range visits {
		// Without cooldowns an origin can be picked again in the same round.
		if k := keyOf(v.Origin); !p.taken[k] {
			p.taken[k] = true
			ask := asks[of[v.Group]]
			p.picked = append(p.picked, dispatch.SharedVisit{Origin: v.Origin, Group: ask.Group, Cost: ask.Cost})
			fresh[v.Group]++
		}
	}
	for place, n := range fresh {
		fills[of[place]].gave(policy, n)
	}
	return nil
}
