package recurrent

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

func weights(policies []model.WeightedPolicy) []float64 {
	w := make([]float64, len(policies))
	for i, p := range policies {
		w[i] = p.Weight
	}
	return w
}

// filling divides slots between policies by weight. It divides again the slots that some policies leave,
// among those that gave all they were asked for, until slots or policies are used up.
type filling struct {
	left  int
	able  []float64 // weights; 0 for a policy that gave less than it was asked for
	asked []int
	got   []int
}

func newFilling(slots int, weights []float64) *filling {
	return &filling{left: slots, able: slices.Clone(weights), got: make([]int, len(weights))}
}

// next returns the number of slots for each policy, or nil if no slot or no policy is left.
func (f *filling) next() []int {
	f.asked = divide(f.left, f.able)
	if f.left == 0 || !slices.ContainsFunc(f.asked, func(n int) bool { return n > 0 }) {
		return nil
	}
	return f.asked
}

// gave records that policy i gave n origins.
func (f *filling) gave(i, n int) {
	f.got[i] += n
	f.left -= n
	if n < f.asked[i] {
		f.able[i] = 0
	}
}

func (f *filling) total() (n int) {
	for _, got := range f.got {
		n += got
	}
	return n
}

// fill divides slots by weight. It calls grab(i, n) for n origins of policy i; grab returns how many it
// got. fill returns the number that each policy gave.
func fill(slots int, weights []float64, grab func(i, n int) (int, error)) ([]int, error) {
	f := newFilling(slots, weights)
	for asked := f.next(); asked != nil; asked = f.next() {
		for i, n := range asked {
			if n == 0 {
				continue
			}
			given, err := grab(i, n)
			if err != nil {
				return nil, err
			}
			f.gave(i, given)
		}
	}
	return f.got, nil
}

// divide splits n into whole parts by weight. The parts add up to n, or to 0 if all weights are 0. Units
// lost by rounding go to the largest remainders.
func divide(n int, weights []float64) []int {
	parts := make([]int, len(weights))
	total := 0.0
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		return parts
	}
	remainders := make([]float64, len(weights))
	left := n
	for i, w := range weights {
		exact := float64(n) * w / total
		parts[i] = min(int(exact), left)
		remainders[i] = exact - float64(parts[i])
		left -= parts[i]
	}
	order := make([]int, 0, len(weights))
	for i, w := range weights {
		if w > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for i := 0; left > 0; i = (i + 1) % len(order) {
		parts[order[i]]++
		left--
	}
	return parts
}

// share compares a policy's part of the fetched origins with its part of the weights. Both are between 0
// and 1.
type share struct{ fetched, requested float64 }

func (s share) off() float64 {
	if s.requested == 0 {
		return 0
	}
	return math.Abs(s.fetched-s.requested) / s.requested
}

// asked returns p without the policies that only fill slots left over (Rest).
func (p Picked) asked() (asked Picked) {
	for i, w := range p.Policies {
		if !w.Rest {
			asked.Policies, asked.Counts = append(asked.Policies, w), append(asked.Counts, p.Counts[i])
		}
	}
	return asked
}

// StepThreshold adjusts the threshold of the policy freshness after a claim of free slots, if the visit
// type has that policy. waiting says whether messages wait for a worker. More visits count as due if the
// claim fills all slots and freshness gives more than 90 % of its part.
func (p Picked) StepThreshold(ctx context.Context, tx *db.Tx, visitType string, now time.Time, free int, waiting bool) error {
	if !slices.ContainsFunc(p.Policies, func(p model.WeightedPolicy) bool { return p.Filter.Policy == model.Freshness }) {
		return nil
	}
	var part share
	for i, s := range skew(p.Counts, weights(p.Policies)) {
		if p.Policies[i].Filter.Policy == model.Freshness {
			part.fetched, part.requested = part.fetched+s.fetched, part.requested+s.requested
		}
	}
	var due []model.OriginKey
	for _, v := range p.Visits {
		if len(p.Visits) >= free && part.fetched > 0.9*part.requested && v.Policy == model.Freshness {
			due = append(due, model.OriginKey{URL: v.Origin.URL, VisitType: v.Origin.VisitType})
		}
	}
	return tx.StepThreshold(ctx, visitType, now, waiting, due)
}

func skew(got []int, weights []float64) []share {
	sum, total := 0, 0.0
	for i := range got {
		sum += got[i]
		total += weights[i]
	}
	if sum == 0 {
		return nil
	}
	shares := make([]share, len(got))
	for i := range got {
		shares[i] = share{fetched: float64(got[i]) / float64(sum), requested: weights[i] / total}
	}
	return shares
}

// weigh returns the policies with their weights, split into originals and forks where configured. The
// policy pools becomes its four policies. The policy freshness gets a policy for the rest until all moments
// are computed.
func (p Picker) weigh(ctx context.Context, tx *db.Tx) ([]model.WeightedPolicy, error) {
	policies := p.Policies
	switch {
	case len(policies) == 1 && policies[0].Filter.Policy == model.Pools:
		without, with, err := tx.CandidateGroups(ctx, p.VisitType)
		if err != nil {
			return nil, err
		}
		policies = pools(policies[0], without, with)
	case slices.ContainsFunc(policies, func(p model.WeightedPolicy) bool { return p.Filter.Policy == model.Freshness }):
		complete, err := tx.MomentsComplete(ctx, p.VisitType)
		if err != nil {
			return nil, err
		}
		if !complete {
			policies = model.WithRest(policies)
		}
	}
	return model.SplitForks(policies), nil
}

// pools returns the four policies with the weights of the design of recurrent visits. without and with
// count the origins without and with a known last update (groups A and B). The three pools of group B share
// with / (without + with) in equal parts; group A gets the rest. Before any origin is counted, all four
// weights are equal.
func pools(all model.WeightedPolicy, without, with int64) []model.WeightedPolicy {
	if without+with == 0 {
		without, with = 1, 3
	}
	var policies []model.WeightedPolicy
	for i, p := range model.PoolPolicies {
		weight := float64(without)
		if i > 0 {
			weight = float64(with) / 3
		}
		pool := all
		pool.Weight, pool.Filter.Policy, pool.Filter.OfPools = weight, p, true
		policies = append(policies, pool)
	}
	return policies
}
