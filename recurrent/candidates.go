package recurrent

import (
	"context"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

const (
	keepPeriod  = 500 * time.Millisecond // how often changes are looked for when there were none
	vacuumAfter = 50_000                 // drained changes after which their table is vacuumed
)

// Candidates is the database of the keeper.
type Candidates interface {
	KeepCandidates(ctx context.Context) (db.Kept, error)
	VacuumCandidateChanges(ctx context.Context) error
}

// keeper keeps candidates up to date. Several keepers, in several processes, take turns.
type keeper struct {
	candidates Candidates
	drained    int64 // changes since the last vacuum
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
	return service.Result{Again: kept.More}, nil
}
