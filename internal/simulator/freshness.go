package simulator

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
)

// momentsPeriod is how often moments are computed, as in the daemon.
const momentsPeriod = 6 * time.Hour

// byFreshness reports whether the policy freshness picks visits of a type.
func byFreshness(policies []model.WeightedPolicy) bool {
	return model.HasFreshness(map[string][]model.WeightedPolicy{"": policies})
}

// startFreshness computes the moments of the visit types with the policy freshness, now and every momentsPeriod.
func (s *simulation) startFreshness(ctx context.Context, visitTypes []string) error {
	longest := make(map[string]time.Duration)
	for _, visitType := range visitTypes {
		for _, p := range model.PoliciesOf(s.Policies, visitType) {
			if p.Filter.Policy == model.Freshness {
				longest[visitType] = p.LongestWait
			}
		}
	}
	if len(longest) == 0 {
		return nil
	}
	if err := s.Store.ConfigureFreshness(ctx, longest); err != nil {
		return err
	}
	s.clock.Every(momentsPeriod, s.renewMoments)
	return nil
}

// renewMoments records the end of a listing and computes moments, which depend on the time since the last listing.
func (s *simulation) renewMoments(ctx context.Context) error {
	if err := s.write(ctx); err != nil {
		return err
	}
	for _, l := range s.listers {
		if err := l.finish(ctx, s.Store, s.clock.Now()); err != nil {
			return err
		}
	}
	if err := keepCandidates(ctx, s.Store); err != nil {
		return err
	}
	s.forgetNextClaims()
	return s.Store.RenewMoments(ctx, s.clock.Now())
}
