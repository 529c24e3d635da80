package recurrent

import (
	"context"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// weigh gives the policies to pick by, with their weights: those of the
// configuration, or, for the policy pools, the four it stands for.
func (p Picker) weigh(ctx context.Context, tx *sql.Tx) ([]scheduler.WeightedPolicy, error) {
	if len(p.Policies) != 1 || p.Policies[0].Filter.Policy != scheduler.Pools {
		return p.Policies, nil
	}
	without, with, err := tx.CandidateGroups(ctx, p.VisitType)
	if err != nil {
		return nil, err
	}
	return pools(p.Policies[0].Filter, without, with), nil
}

// pools divides the slots as the design of recurrent visits says: the part
// r = with / (without + with) goes in thirds to the three pools of origins whose
// lister tells their last update (group B), the rest to the origins without one
// (group A). While nothing is counted yet, all four get the same.
func pools(f scheduler.VisitFilter, without, with int64) []scheduler.WeightedPolicy {
	if without+with == 0 {
		without, with = 1, 3
	}
	third := float64(with) / 3
	policies := make([]scheduler.WeightedPolicy, 0, 4)
	for _, p := range []struct {
		policy scheduler.VisitPolicy
		weight float64
	}{
		{scheduler.OriginsWithoutLastUpdate, float64(without)},
		{scheduler.NeverVisitedOldestUpdateFirst, third},
		{scheduler.AlreadyVisitedOrderByLag, third},
		{scheduler.OthersByVisitTarget, third},
	} {
		filter := f
		filter.Policy = p.policy
		policies = append(policies, scheduler.WeightedPolicy{Weight: p.weight, Filter: filter})
	}
	return policies
}
