package recurrent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

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
	origins, err := r.pick(ctx, tx, free)
	if err != nil || len(origins) == 0 {
		return 0, err
	}
	mix(origins)
	return len(origins), dispatch.EnqueueVisits(ctx, tx, tt.BackendName, tt.BackendName, origins)
}

// mix shuffles what was picked: origins that different policies pick cost workers
// different amounts (the peer does so too).
func mix[V any](picked []V) {
	rand.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
}

// visitKey tells the picked origins of a visit type apart.
type visitKey struct {
	lister uuid.UUID
	url    string
}

func keyOf(o scheduler.ListedOrigin) visitKey { return visitKey{o.ListerID, o.URL} }

// pick grabs origins until the slots or the origins are used up.
func (r *round) pick(ctx context.Context, tx *sql.Tx, slots int) ([]scheduler.ListedOrigin, error) {
	policies, err := r.weigh(ctx, tx)
	if err != nil {
		return nil, err
	}
	var picked []scheduler.ListedOrigin
	taken := make(map[visitKey]bool)
	got, err := fill(slots, weights(policies), func(i, n int) (int, error) {
		filter := policies[i].Filter
		filter.VisitType = r.visitType
		origins, err := tx.GrabNextVisits(ctx, filter, r.now(), n, false)
		if err != nil {
			return 0, err
		}
		fresh := 0
		for _, o := range origins {
			// Without cooldowns an origin can be picked again in the same round.
			if k := keyOf(o); !taken[k] {
				taken[k] = true
				picked = append(picked, o)
				fresh++
			}
		}
		return fresh, nil
	})
	if err != nil {
		return nil, err
	}
	r.count(policies, got)
	return picked, nil
}

// count notes how many origins each policy gave.
func (r *round) count(policies []scheduler.WeightedPolicy, got []int) {
	for i, n := range got {
		r.visits.WithLabelValues(r.visitType, string(policies[i].Filter.Policy)).Add(float64(n))
	}
	r.warnOfSkew(policies, got)
}

// warnOfSkew says where what the policies gave is more than 5 % off what their
// weights ask for, as the peer does.
func (r *round) warnOfSkew(policies []scheduler.WeightedPolicy, got []int) {
	for i, s := range skew(got, weights(policies)) {
		if s.off() > 0.05 {
			r.log.Info("skewed fetch", "policy", policies[i].Filter.Policy, "fetched", s.fetched, "requested", s.requested)
		}
	}
}
