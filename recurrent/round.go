package recurrent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// round is the state of one visit type's loop.
type round struct {
	*Scheduler
	visitType string
	log       *slog.Logger
	picked    Picked // the result of the last claim

	idle        bool          // the last round found nothing to visit
	hostersFull bool          // the last round left visits out because their hosters are full
	nextRound   time.Time     // when to run again if no origin becomes due earlier
	dueWait     time.Duration // the wait between two queries for a due origin
}

// next does a round. After a round without visits, it only queries for a due origin until nextRound.
func (r *round) next(ctx context.Context) (service.Result, error) {
	left := r.nextRound.Sub(r.now())
	resting := r.idle && left > 0
	if resting {
		began := time.Now()
		due, err := r.originDue(ctx)
		if err != nil {
			return service.Result{}, err
		}
		if !due {
			return service.Result{Next: min(left, max(r.dueWait, dueCost*time.Since(began)))}, nil
		}
	}
	began := time.Now()
	wait, err := r.runOnce(ctx)
	if err == nil && r.hostersFull {
		return service.Result{Next: min(r.NoOriginsBackoff, max(duePeriod, dueCost*time.Since(began)))}, nil
	}
	wait = max(wait+r.splay(), time.Millisecond) // never 0: Loop takes 0 as its own period
	switch {
	case err != nil || !r.idle:
		return service.Result{Next: wait}, err
	case resting: // an origin is due, but the claim got none
		r.dueWait *= 2
	default:
		r.dueWait = duePeriod
	}
	r.nextRound = r.now().Add(wait)
	return service.Result{Next: min(wait, r.dueWait)}, nil
}

// originDue reports whether candidates hold a due origin.
func (r *round) originDue(ctx context.Context) (found bool, err error) {
	err = r.Store.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		found, err = r.picker().anyDue(ctx, tx, r.now())
		return err
	})
	return found, err
}

func (r *round) picker() Picker {
	return Picker{VisitType: r.visitType, Policies: r.policiesOf(r.visitType)}
}

// runOnce fills the free slots of the visit type's queue. It returns the wait before the next round,
// without splay.
func (r *round) runOnce(ctx context.Context) (time.Duration, error) {
	// Each round reads the task type anew: its limit can change.
	tt, err := r.Store.TaskType(ctx, model.LoaderTaskType(r.visitType))
	if err != nil {
		return 0, err
	}
	r.idle, r.hostersFull, r.picked = false, false, Picked{}
	queue := dispatch.Queue{Name: tt.BackendName, Limit: tt.MaxQueueLength}.WithLanes(tt.Type, tt, r.Lanes)
	c, err := r.Slots.Open(ctx, queue)
	if err != nil {
		return 0, err
	}
	full := c.Free < dispatch.RefillByVisits(queue.Limit)
	var work []ledger.Work
	if !full {
		work, err = r.claim(ctx, c, tt, queue)
		r.hostersFull = r.picked.HostersFull && len(work) < c.Size
	}
	n, err := c.Commit(ctx, work, err)
	switch {
	case err != nil:
		return 0, err
	case full:
		return r.QueueFullBackoff, nil
	case n == 0 && r.hostersFull:
		r.log.Debug("the hosters of all due origins are full")
		return 0, nil
	case n == 0 && r.picked.AtCeiling: // a group gets room as soon as one of its visits ends
		return duePeriod, nil
	case n == 0:
		r.log.Debug("no origins to visit")
		r.idle = true
		return r.NoOriginsBackoff, nil
	}
	r.log.Info("visits claimed", "queue", queue.Name, "visits", n)
	r.samples.add(ctx, r.picked.Visits)
	return 0, nil
}

// claim picks origins up to the size of a claim and makes their messages. Groups of listers divide the
// slots if they share the queue.
func (r *round) claim(ctx context.Context, c *dispatch.Claim, tt model.TaskType, queue dispatch.Queue) ([]ledger.Work, error) {
	now := r.now()
	picker := r.picker()
	var picked Picked
	var err error
	if shares, ok := r.Shares[tt.Type]; ok && shares.By.OfVisits() {
		picked, err = picker.PickShared(ctx, c.Tx, dispatch.SharedQueue{Name: tt.BackendName, Shares: shares}, now, c.Size)
	} else {
		picked, err = picker.Pick(ctx, c.Tx, now, c.Size)
	}
	if err != nil {
		return nil, err
	}
	if err := picked.StepThreshold(ctx, c.Tx, r.visitType, now, c.Size, r.Slots.Waiting(queue)); err != nil {
		return nil, err
	}
	r.count(r.visitType, picked, r.log)
	Shuffle(picked.Visits)
	r.picked = picked
	return dispatch.VisitWork(ctx, c.Tx, tt.BackendName, tt.BackendName, picked.Visits, now)
}

// Shuffle shuffles the picked visits, as the Python scheduler does: workers spend different times on origins of
// different policies.
func Shuffle[V any](picked []V) {
	rand.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
}

// count counts the origins by policy. Like the Python scheduler, it logs policies that are more than 5 %
// off their weights.
func (s *Scheduler) count(visitType string, p Picked, log *slog.Logger) {
	for i, n := range p.Counts {
		f := p.Policies[i].Filter
		s.visits.WithLabelValues(visitType, string(f.Policy), string(f.Forks)).Add(float64(n))
	}
	p = p.asked()
	for i, part := range skew(p.Counts, weights(p.Policies)) {
		if part.off() > 0.05 {
			log.Info("skewed fetch", "policy", p.Policies[i].Name(), "fetched", part.fetched, "requested", part.requested)
		}
	}
}
