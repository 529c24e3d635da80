package maintenance

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

// Hints returns the job that counts the first visits after hints by source, moves origins again that a lister has set back,
// and deletes old hints. Its daemon needs the right to update listed_origins.
func Hints(store *db.Store) Job {
	return Job{Name: "hints", Period: time.Minute, Origins: true, Do: func(ctx context.Context) (string, error) {
		return "", store.MaintainHints(ctx, hintsTime)
	}}
}

// hintsTime bounds a run of the job, well below DefaultTimeout.
const hintsTime = 10 * time.Second
