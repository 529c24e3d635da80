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
	keepPeriod = 500 * time.Millisecond // how often changes are looked for when there were none
	tellEvery  = time.Minute            // how often the progress of a build is logged
)

// Candidates is the database of the keeper.
type Candidates interface {
	MaintainCandidates(ctx context.Context) (origins.Maintained, error)
}

// keeper keeps candidates up to date. Several keepers, in several processes, take turns.
type keeper struct {
	candidates Candidates
	log        *slog.Logger
	told       candidates.BuildLog
}

func (k *keeper) runOnce(ctx context.Context) (service.Result, error) {
	kept, err := k.candidates.MaintainCandidates(ctx)
	if err != nil {
		return service.Result{}, err
	}
	if kept.Build.Phase != "" { // else another process has them
		k.told.Report(k.log, kept.Build, time.Now(), tellEvery)
	}
	return service.Result{Again: kept.More}, nil
}
