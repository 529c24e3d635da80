package recurrent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// PickShared picks like Pick, and divides the slots between groups of listers. The caller holds the queue's
// lock.
func (p Picker) PickShared(ctx context.Context, tx *db.Tx, queue dispatch.SharedQueue, now time.Time, slots int) (Picked, error) {
	listers, err := tx.VisitListers(ctx, p.VisitType, p.Policies)
	if err != nil {
		return Picked{}, err
	}
	s := sharedPick{Picker: p, grabs: tx.Grabs(now), groups: make(map[string][]uuid.UUID), taken: make(map[visitKey]bool)}
	for _, l := range listers {
		group := model.ListerGroup(queue.Shares.By, l)
		s.groups[group] = append(s.groups[group], l.ID)
	}
	if s.policies, err = p.weigh(ctx, tx); err != nil {
		return Picked{}, err
	}
	s.got = make([]int, len(s.policies))
	d, err := dispatch.Divide(ctx, tx, queue, now, slots, dispatch.WaitingGroups{Groups: slices.Collect(maps.Keys(s.groups)), Visits: true})
	if err != nil {
		return Picked{}, err
	}
	for asks := d.Next(); asks != nil; asks = d.Next() {
		given, err := s.grab(ctx, asks)
		if err != nil {
			return Picked{}, err
		}
		d.RecordClaimed(given)
	}
	return Picked{Visits: s.picked, Policies: s.policies, Counts: s.got, AtCeiling: d.AtCeiling, HostersFull: s.grabs.HostersFull()}, d.Save(ctx, tx)
}

// sharedPick picks the origins of one round for the groups of listers.
type sharedPick struct {
	Picker
	grabs    *origins.Grabs
	policies []model.WeightedPolicy
	groups   map[string][]uuid.UUID

	picked []dispatch.Visit
	taken  map[visitKey]bool
	got    []int // by policy
}

// grab picks origins for each group's ask, by the policies' weights within the group. One query per policy
// serves all groups. grab returns the number of origins by group.
func (p *sharedPick) grab(ctx context.Context, asks []dispatch.GroupQuota) ([]int, error) {
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

// grabBy picks the groups' parts of one policy.
func (p *sharedPick) grabBy(ctx context.Context, policy int, asks []dispatch.GroupQuota, parts [][]int, fills []*filling) error {
	var wanted []origins.VisitGroup
	var of []int // the index in asks, by index in wanted
	for i, part := range parts {
		if part != nil && part[policy] > 0 {
			wanted = append(wanted, origins.VisitGroup{Listers: p.groups[asks[i].Name], Count: part[policy]})
			of = append(of, i)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	filter := p.filter(p.policies[policy])
	visits, err := p.grabs.Grouped(ctx, filter, wanted)
	if err != nil {
		return err
	}
	fresh := make([]int, len(wanted))
	for _, v := range visits {
		// Without cooldowns, a round can grab an origin again.
		if k := keyOf(v.Origin); !p.taken[k] {
			p.taken[k] = true
			ask := asks[of[v.Group]]
			p.picked = append(p.picked, dispatch.Visit{GrabbedVisit: v, Policy: filter.Policy, Share: ask.Share()})
			fresh[v.Group]++
		}
	}
	for place, n := range fresh {
		fills[of[place]].gave(policy, n)
	}
	return nil
}
