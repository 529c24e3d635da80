package recurrent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Picker picks the origins of a round: what a Scheduler does with the free slots
// of a queue, for whoever counts the slots and tells the time himself.
type Picker struct {
	VisitType string
	Policies  []scheduler.WeightedPolicy
}

// Picked is what a Picker picked.
type Picked struct {
	Origins  []scheduler.ListedOrigin   // in the order they were picked, policy by policy
	Policies []scheduler.WeightedPolicy // pools taken apart
	Got      []int                      // how many origins each of them gave
}

// visitKey tells the picked origins of a visit type apart.
type visitKey struct {
	lister uuid.UUID
	url    string
}

func keyOf(o scheduler.ListedOrigin) visitKey { return visitKey{o.ListerID, o.URL} }

// Pick grabs origins, and marks them as scheduled at now, until the slots or the
// origins are used up.
func (p Picker) Pick(ctx context.Context, tx *sql.Tx, now time.Time, slots int) (Picked, error) {
	policies, err := p.weigh(ctx, tx)
	if err != nil {
		return Picked{}, err
	}
	picked := Picked{Policies: policies}
	taken := make(map[visitKey]bool)
	picked.Got, err = fill(slots, weights(policies), func(i, n int) (int, error) {
		filter := policies[i].Filter
		filter.VisitType = p.VisitType
		origins, err := tx.GrabNextVisits(ctx, filter, now, n, false)
		if err != nil {
			return 0, err
		}
		fresh := 0
		for _, o := range origins {
			// Without cooldowns an origin can be picked again in the same round.
			if k := keyOf(o); !taken[k] {
				taken[k] = true
				picked.Origins = append(picked.Origins, o)
				fresh++
			}
		}
		return fresh, nil
	})
	return picked, err
}
