package db

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// LastListings returns the last runs of the tasks of the types that started since a moment, up to 3 for each task.
func (s JobStore) LastListings(ctx context.Context, types []string, since time.Time) ([]model.ListingRun, error) {
	rows, err := s.q.LastListings(ctx, queries.LastListingsParams{Types: types, Since: since})
	return stmt.List(rows, stmt.Failed(err, "read the last listings"), func(r queries.LastListingsRow) model.ListingRun {
		return model.ListingRun{ID: r.ID, TaskType: r.Type, Arguments: r.Arguments, Status: r.Status, Scheduled: r.Scheduled, Started: r.Started, Ended: r.Ended}
	})
}
