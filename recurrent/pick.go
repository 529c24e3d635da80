package recurrent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Picker picks the origins of a round; the caller gives the number of slots and the time.
type Picker struct {
	VisitType string
	Policies  []model.WeightedPolicy
}

// Picked is the result of a pick.
type Picked struct {
	Visits   []dispatch.Visit       // in the order of picking, policy by policy
	Policies []model.WeightedPolicy // the policy pools as its four policies
	Counts   []int                  // the number of origins by policy

	AtCeiling   bool // a group that may have visits to claim is at its ceiling
	HostersFull bool // the pick left out visits because their hosters are full
}

// visitKey identifies a picked origin of a visit type.
type visitKey struct {
	lister uuid.UUID
	url    string
}

func keyOf(o model.ListedOrigin) visitKey { return visitKey{o.ListerID, o.URL} }

// Pick grabs origins until no slot or no origin is left, and marks them as scheduled at now.
func (p Picker) Pick(ctx context.Context, tx *db.Tx, now time.Time, slots int) (picked Picked, err error) {
	policies, err := p.weigh(ctx, tx)
	if err != nil {
		return Picked{}, err
	}
	picked.Policies = policies
	grabs, taken := tx.Grabs(now), make(map[visitKey]bool)
	picked.Counts, err = fill(slots, weights(policies), func(i, n int) (int, error) {
		visits, err := grabs.Next(ctx, p.filter(policies[i]), n)
		if err != nil {
			return 0, err
		}
		fresh := 0
		for _, v := range visits {
			// Without cooldowns, a round can grab an origin again.
			if k := keyOf(v.Origin); !taken[k] {
				taken[k] = true
				picked.Visits = append(picked.Visits, dispatch.Visit{GrabbedVisit: v, Policy: policies[i].Filter.Policy})
				fresh++
			}
		}
		return fresh, nil
	})
	picked.HostersFull = grabs.HostersFull()
	return picked, err
}

// anyDue reports whether candidates hold an origin that a policy of some weight picks now.
func (p Picker) anyDue(ctx context.Context, tx *db.Tx, now time.Time) (found bool, err error) {
	policies, err := p.weigh(ctx, tx)
	for i := 0; i < len(policies) && !found && err == nil; i++ {
		if policies[i].Weight > 0 {
			found, _, err = tx.AnyVisit(ctx, p.filter(policies[i]), now)
		}
	}
	return found, err
}

// filter returns a policy's filter with the picker's visit type.
func (p Picker) filter(policy model.WeightedPolicy) model.VisitFilter {
	f := policy.Filter
	f.VisitType = p.VisitType
	return f
}
