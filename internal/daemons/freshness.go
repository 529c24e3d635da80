package daemons

import (
	"context"
	"time"

	"swh-scheduler/internal/keep"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// freshness checks that the database is ready for the configured policies, sets the visit types
// with the policy freshness, and returns the job that maintains the figures that policy picks by.
func (o *Options) freshness(ctx context.Context, store *db.Store) (keep.Job, error) {
	policies := o.Config.SchedulingPolicy
	configure := func(ctx context.Context) error {
		var types []model.TaskType
		var err error
		if model.HasFreshness(policies) {
			types, err = store.TaskTypes(ctx)
		}
		if err != nil {
			return err
		}
		return store.ConfigureFreshness(ctx, longestWaits(policies, types))
	}
	err := o.patiently(ctx, store, func(ctx context.Context) error {
		if err := store.CheckPolicies(ctx, policies); err != nil {
			return err
		}
		return configure(ctx)
	})
	return keep.Job{Name: "freshness", Period: time.Minute, Unconfigured: !model.HasFreshness(policies), Do: func(ctx context.Context) (string, error) {
		if err := configure(ctx); err != nil { // task types may be new
			return "", err
		}
		return "", store.KeepFreshness(ctx, store.Now(), freshnessTime)
	}}, err
}

// freshnessTime is how long a run of the job works at most, well below keep.DefaultTimeout.
const freshnessTime = 15 * time.Second

// longestWaits returns the longest wait by visit type, of those with the policy freshness.
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
