package maintenance

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// ConfigureFreshness checks that the database is ready for the configured policies, and stores which visit types have
// the policy freshness.
func ConfigureFreshness(ctx context.Context, store *db.Store, policies map[string][]model.WeightedPolicy) error {
	if err := store.CheckPolicies(ctx, policies); err != nil {
		return err
	}
	var types []model.TaskType
	if model.HasFreshness(policies) {
		var err error
		if types, err = store.TaskTypes(ctx); err != nil {
			return err
		}
	}
	return store.ConfigureFreshness(ctx, longestWaits(policies, types))
}

// Freshness returns the job that maintains the figures of the policy freshness.
func Freshness(store *db.Store, policies map[string][]model.WeightedPolicy) Job {
	return Job{Name: "freshness", Period: time.Minute, Unconfigured: !model.HasFreshness(policies), Do: func(ctx context.Context) (string, error) {
		if err := ConfigureFreshness(ctx, store, policies); err != nil { // task types may have been added
			return "", err
		}
		return "", store.MaintainFreshness(ctx, store.Now(), freshnessTime)
	}}
}

// freshnessTime bounds a run of the job, well below DefaultTimeout.
const freshnessTime = 15 * time.Second

// longestWaits returns the longest wait by visit type, for types with the policy freshness.
func longestWaits(policies map[string][]model.WeightedPolicy, types []model.TaskType) map[string]time.Duration {
	waits := make(map[string]time.Duration)
	for _, tt := range types {
		visitType, ok := model.LoadedVisitType(tt.Type)
		if !ok {
			continue
		}
		for _, p := range model.PoliciesOf(policies, visitType) {
			if p.Filter.Policy == model.Freshness {
				waits[visitType] = p.LongestWait
			}
		}
	}
	return waits
}
