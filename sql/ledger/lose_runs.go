package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// SilentRun is a run in status scheduled or started without an event for long.
type SilentRun = queries.SilentRunsRow

// LoseRuns ends runs as lost at now, and returns their number. It skips runs whose status has changed since
// they were listed. The trigger retries their tasks as after a failure. Their messages leave the ledger,
// and their groups are charged the expected cost. LoseRuns takes locks in the order of Settle. It returns a
// *postgres.RefusedError if PostgreSQL refuses a value.
func (s Store) LoseRuns(ctx context.Context, runs []SilentRun, now time.Time) (lost int, err error) {
	err = postgres.RetryLostRaces(func() error {
		return s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
			locked, err := tx.q.LockSilentRuns(ctx, stmt.Columns[queries.LockSilentRunsParams](runs))
			if err != nil || len(locked) == 0 {
				return err
			}
			var ids []int64
			var work []uuid.UUID
			for _, r := range locked {
				ids = append(ids, r.ID)
				if id, ok := model.ParseTaskID(r.BackendID); ok { // otherwise not an id of this program
					work = append(work, id)
				}
			}
			if err := tx.q.LoseWork(ctx, queries.LoseWorkParams{TaskIds: work, Now: now}); err != nil {
				return err
			}
			n, err := tx.q.LoseRuns(ctx, queries.LoseRunsParams{Now: now, Ids: ids})
			lost = int(n)
			return err
		})
	})
	return lost, postgres.AsRefused(stmt.Failed(err, "end lost runs"))
}
