package recurrent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

const (
	keepPeriod    = 500 * time.Millisecond // how often changes are looked for when there were none
	backlogPeriod = 10 * time.Second       // how often the backlog is counted, which reads all of it
	maxBacklog    = 10_000_000             // up to which it is counted
	vacuumAfter   = 50_000                 // drained changes after which their table is vacuumed
)

// Candidates is the database of the keeper.
type Candidates interface {
	KeepCandidates(ctx context.Context) (db.Kept, error)
	VacuumCandidateChanges(ctx context.Context) error
	CandidateBacklog(ctx context.Context, limit int64) (int64, error)
}

// keeper keeps candidates up to date. Several keepers, in several processes, take turns.
type keeper struct {
	candidates Candidates
	backlog    prometheus.Gauge
	now        func() time.Time

	drained int64     // changes since the last vacuum
	counted time.Time // when the backlog was
}

func newKeeper(s *Scheduler) *keeper {
	return &keeper{candidates: s.Store, backlog: s.backlog, now: s.now}
}

func (k *keeper) runOnce(ctx context.Context) (service.Result, error) {
	kept, err := k.candidates.KeepCandidates(ctx)
	if err != nil {
		return service.Result{}, err
	}
	if k.drained += kept.Drained; k.drained >= vacuumAfter {
		k.drained = 0
		if err := k.candidates.VacuumCandidateChanges(ctx); err != nil {
			return service.Result{}, err
		}
	}
	if now := k.now(); now.Sub(k.counted) >= backlogPeriod {
		k.counted = now
		n, err := k.candidates.CandidateBacklog(ctx, maxBacklog)
		if err != nil {
			return service.Result{}, err
		}
		k.backlog.Set(float64(n))
	}
	return service.Result{Again: kept.More}, nil
}
