package recurrent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/sql"
)

const (
	// keepPeriod is how often changes are looked for when there were none.
	keepPeriod = 500 * time.Millisecond
	// backlogPeriod is how often the backlog is counted, and maxBacklog up to
	// what: counting reads all of it.
	backlogPeriod = 10 * time.Second
	maxBacklog    = 10_000_000
	// vacuumAfter is after how many drained changes what is left of them is
	// cleared away.
	vacuumAfter = 50_000
)

// Candidates is what the keeper asks of the database.
type Candidates interface {
	KeepCandidates(ctx context.Context) (sql.Kept, error)
	VacuumCandidateChanges(ctx context.Context) error
	CandidateBacklog(ctx context.Context, limit int64) (int64, error)
}

// keeper keeps up to date what the policies pick from, so that the rounds need
// not. Several keepers, in several processes, take turns.
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

func (k *keeper) runOnce(ctx context.Context) (daemon.Result, error) {
	kept, err := k.candidates.KeepCandidates(ctx)
	if err != nil {
		return daemon.Result{}, err
	}
	if k.drained += kept.Drained; k.drained >= vacuumAfter {
		k.drained = 0
		if err := k.candidates.VacuumCandidateChanges(ctx); err != nil {
			return daemon.Result{}, err
		}
	}
	if now := k.now(); now.Sub(k.counted) >= backlogPeriod {
		k.counted = now
		n, err := k.candidates.CandidateBacklog(ctx, maxBacklog)
		if err != nil {
			return daemon.Result{}, err
		}
		k.backlog.Set(float64(n))
	}
	return daemon.Result{Again: kept.More}, nil
}
