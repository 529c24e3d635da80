package recurrent

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/origins"
)

const (
	drainPeriod    = 500 * time.Millisecond // the wait after a drain that found no changes
	progressPeriod = time.Minute            // the least time between log entries on a build's progress
)

// Candidates maintains the candidates in the database.
type Candidates interface {
	MaintainCandidates(ctx context.Context) (origins.MaintainResult, error)
}

// keeper drains changes into candidates. Keepers of several processes take turns by a lock in the database.
type keeper struct {
	candidates Candidates
	log        *slog.Logger
	progress   candidates.BuildLog
}

func (k *keeper) runOnce(ctx context.Context) (service.Result, error) {
	kept, err := k.candidates.MaintainCandidates(ctx)
	if err != nil {
		return service.Result{}, err
	}
	if kept.Build.Phase != "" { // another process holds the lock otherwise
		k.progress.Report(k.log, kept.Build, time.Now(), progressPeriod)
	}
	return service.Result{Again: kept.More}, nil
}
