package recurrent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// round is the work of one visit type's loop.
type round struct {
	*Scheduler
	visitType string
	policies  []scheduler.WeightedPolicy
	log       *slog.Logger
}

// runOnce fills the free slots of the visit type's queue and returns how long to
// wait before the next round, splay not counted.
func (r *round) runOnce(ctx context.Context) (time.Duration, error) {
	// Read anew each time: the limit may have changed.
	tt, err := r.Store.TaskType(ctx, scheduler.LoaderTaskType(r.visitType))
	if err != nil {
		return 0, err
	}
	full := false
	queue := dispatch.Queue{Name: tt.BackendName, Limit: tt.MaxQueueLength}.OnLanes(tt.Type, tt, r.Lanes)
	n, err := r.Slots.Claim(ctx, queue, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
		if full = tooFull(free, queue.Limit); full {
			return 0, nil
		}
		if shares, ok := r.Shares[tt.Type]; ok && shares.By.OfVisits() {
			return r.claimShared(ctx, tx, tt, shares, free)
		}
		return r.claim(ctx, tx, tt, free)
	})
	switch {
	case err != nil:
		return 0, err
	case full:
		return r.QueueFullBackoff, nil
	case n == 0:
		r.log.Debug("no origins to visit")
		return r.NoOriginsBackoff, nil
	}
	r.log.Info("visits claimed", "queue", queue.Name, "visits", n)
	return 0, nil
}

// tooFull says that so little of the queue is free that a refill isn't worth it.
func tooFull(free int, limit *int64) bool {
	return limit != nil && float64(free) < float64(*limit)*minSlotsRatio
}

// claim picks up to free origins and writes their messages to the outbox.
func (r *round) claim(ctx context.Context, tx *sql.Tx, tt scheduler.TaskType, free int) (int, error) {
	picked, err := r.picker().Pick(ctx, tx, r.now(), free)
	if err != nil {
		return 0, err
	}
	r.count(picked)
	if len(picked.Origins) == 0 {
		return 0, nil
	}
	mix(picked.Origins)
	return len(picked.Origins), dispatch.EnqueueVisits(ctx, tx, tt.BackendName, tt.BackendName, picked.Origins)
}

// mix shuffles what was picked: origins that different policies pick cost workers
// different amounts (the peer does so too).
func mix[V any](picked []V) {
	rand.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
}

// picker picks this round's origins.
func (r *round) picker() Picker { return Picker{VisitType: r.visitType, Policies: r.policies} }

// count notes how many origins each policy gave.
func (r *round) count(p Picked) {
	for i, n := range p.Got {
		r.visits.WithLabelValues(r.visitType, string(p.Policies[i].Filter.Policy)).Add(float64(n))
	}
	r.warnOfSkew(p)
}

// warnOfSkew says where what the policies gave is more than 5 % off what their
// weights ask for, as the peer does.
func (r *round) warnOfSkew(p Picked) {
	for i, s := range skew(p.Got, weights(p.Policies)) {
		if s.off() > 0.05 {
			r.log.Info("skewed fetch", "policy", p.Policies[i].Filter.Policy, "fetched", s.fetched, "requested", s.requested)
		}
	}
}
