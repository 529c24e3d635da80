package recurrent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Picker picks the origins of a round, for a number of slots and a time of the caller.
type Picker struct {
	VisitType string
	Policies  []model.WeightedPolicy
}

// Picked is what a Picker picked.
type Picked struct {
	Visits   []dispatch.Visit       // in the order they were picked, policy by policy
	Policies []model.WeightedPolicy // with pools split
	Got      []int                  // how many origins each policy gave

	AtCeiling bool // a group that may have work waiting is at its ceiling
	Spared    bool // visits were left out whose hosters have no room
}

// visitKey identifies a picked origin of a visit type.
type visitKey struct {
	lister uuid.UUID
	url    string
}

func keyOf(o model.ListedOrigin) visitKey { return visitKey{o.ListerID, o.URL} }

// Pick grabs origins, and marks them as scheduled at now, until the slots or the
// origins are used up.
func (p Picker) Pick(ctx context.Context, tx *db.Tx, now time.Time, slots int) (picked Picked, err error) {
	policies, err := p.weigh(ctx, tx)
	if err != nil {
		return Picked{}, err
	}
	picked.Policies = policies
	grabs, taken := tx.Grabs(now), make(map[visitKey]bool)
	picked.Got, err = fill(slots, weights(policies), func(i, n int) (int, error) {
		visits, err := grabs.Next(ctx, p.filter(policies[i]), n)
		if err != nil {
			return 0, err
		}
		fresh := 0
		for _, v := range visits {
			// Without cooldowns an origin can be picked again in the same round.
			if k := keyOf(v.Origin); !taken[k] {
				taken[k] = true
				picked.Visits = append(picked.Visits, dispatch.Visit{GrabbedVisit: v, Policy: policies[i].Filter.Policy})
				fresh++
			}
		}
		return fresh, nil
	})
	picked.Spared = grabs.LeftOut()
	return picked, err
}

// any reports whether there is an origin to pick, as far as candidates know.
func (p Picker) any(ctx context.Context, tx *db.Tx, now time.Time) (found bool, err error) {
	policies, err := p.weigh(ctx, tx)
	for i := 0; i < len(policies) && !found && err == nil; i++ {
		if policies[i].Weight > 0 {
			found, _, err = tx.AnyVisit(ctx, p.filter(policies[i]), now)
		}
	}
	return found, err
}

// filter returns a policy's filter, for the visit type.
func (p Picker) filter(policy model.WeightedPolicy) model.VisitFilter {
	f := policy.Filter
	f.VisitType = p.VisitType
	return f
}
