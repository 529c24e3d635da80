package origins

import (
	"context"
	"fmt"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Bounds of the weights of listers; table listings checks them.
const MinListerWeight, MaxListerWeight = 0.001, 1000

// ListerWeight is how much the staleness of a lister's origins counts for the policy freshness, beside that of
// others. The value of a visit is multiplied by it.
type ListerWeight struct {
	Name     string  `json:"lister"`
	Instance string  `json:"instance"`
	Weight   float64 `json:"weight"`
}

// ListerWeights returns the listers with a weight other than 1, by name.
func (s Queries) ListerWeights(ctx context.Context) ([]ListerWeight, error) {
	rows, err := s.q.ListerWeights(ctx)
	all, err := stmt.List(rows, err, func(r queries.ListerWeightsRow) ListerWeight {
		return ListerWeight{r.Name, r.InstanceName, r.Weight}
	})
	return all, stmt.Failed(err, "read the weights of listers")
}

// ListerWeight returns the weight of a lister. The error is model.ErrUnknownLister if there is no such lister.
func (s Queries) ListerWeight(ctx context.Context, name, instance string) (float64, error) {
	if _, err := s.Lister(ctx, name, instance); err != nil {
		return 0, err
	}
	all, err := s.ListerWeights(ctx)
	for _, w := range all {
		if w.Name == name && w.Instance == instance {
			return w.Weight, err
		}
	}
	return 1, err
}

// SetListerWeight sets the weight of a lister. Moments follow within six hours, by the walk over candidates. The error
// is model.ErrUnknownLister if there is no such lister, and another one if no listing of it has ended.
func (s Store) SetListerWeight(ctx context.Context, name, instance string, weight float64) error {
	if !(weight >= MinListerWeight && weight <= MaxListerWeight) {
		return fmt.Errorf("the weight of a lister must be between %v and %v, not %v", MinListerWeight, float64(MaxListerWeight), weight)
	}
	l, err := s.Lister(ctx, name, instance)
	if err != nil {
		return err
	}
	n, err := s.q.SetListerWeight(ctx, queries.SetListerWeightParams{ListerID: l.ID, Weight: weight})
	if err == nil && n == 0 {
		return fmt.Errorf("no listing of %s/%s has ended yet: set its weight afterwards", name, instance)
	}
	return stmt.Failed(err, "set the weight of lister %s/%s", name, instance)
}
