package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
)

// PutOff says why a run's message is not in its queue yet.
type PutOff struct {
	Attempts int32  // how often the broker refused it
	Reason   string // the last time
	Again    time.Time
}

// PutOffMessages finds the messages of these runs that the broker refused and
// that wait to be tried again, by the runs' numbers.
func (a asker) PutOffMessages(ctx context.Context, runs []scheduler.TaskRun) (map[int64]PutOff, error) {
	byID := make(map[string]int64, len(runs))
	var ids []uuid.UUID
	for _, r := range runs {
		if r.BackendID == nil {
			continue
		}
		id, err := uuid.Parse(*r.BackendID)
		if err != nil {
			continue // not one of ours
		}
		ids = append(ids, id)
		byID[id.String()] = r.ID
	}
	rows, err := a.q.PutOffMessages(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look for messages put off: %w", err)
	}
	putOff := make(map[int64]PutOff, len(rows))
	for _, row := range rows {
		putOff[byID[row.BackendID]] = PutOff{Attempts: row.Attempts, Reason: row.Reason, Again: row.NotBefore}
	}
	return putOff, nil
}
