package origins

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// MaxCandidateChanges bounds the pending changes of candidates: some 700 MB. With more, a rebuild takes no
// longer than the drain.
const MaxCandidateChanges = 5_000_000

// dropPages is the number of pages of changes deleted in one transaction: a million changes in one or two
// seconds.
const dropPages = 10_000

// BoundResult is the result of one call of BoundChanges.
type BoundResult struct {
	Drained int64
	GivenUp bool  // grabs don't use candidates until the rebuild
	Deleted int64 // changes that the rebuild doesn't need
}

func (b BoundResult) String() string {
	switch {
	case b.GivenUp:
		return fmt.Sprintf("candidates given up, %d changes deleted", b.Deleted)
	case b.Deleted > 0:
		return fmt.Sprintf("%d changes deleted", b.Deleted)
	case b.Drained > 0:
		return fmt.Sprintf("%d changes drained", b.Drained)
	}
	return ""
}

// BoundChanges drains changes of candidates for about atMost, if candidates are built. With more than limit
// changes, built or not, it gives candidates up: it deletes the changes, and candidates are empty until
// MaintainCandidates or Migrate rebuilds them. Until then grabs read the tables.
func (s Store) BoundChanges(ctx context.Context, limit int64, atMost time.Duration) (b BoundResult, err error) {
	deadline := time.Now().Add(atMost)
	pending, err := s.q.CandidateBacklog(ctx, limit+1)
	if err != nil || pending == 0 {
		return b, stmt.Failed(err, "count the changes of candidates")
	}
	build, err := s.q.BuildPhase(ctx)
	if err != nil {
		return b, stmt.Failed(err, "read the phase of the build of candidates")
	}
	switch {
	case pending > limit || build.Phase == candidates.PhaseEmpty:
		b.Deleted, err = s.dropChanges(ctx, deadline)
		b.GivenUp = build.Phase != candidates.PhaseEmpty && b.Deleted > 0
		return b, stmt.Failed(err, "give candidates up")
	case build.Phase == candidates.PhaseReady:
		for more := true; more && err == nil && time.Now().Before(deadline); {
			var kept MaintainResult
			kept, err = s.MaintainCandidates(ctx)
			b.Drained += kept.Drained
			more = kept.More
		}
	}
	return b, err
}

// dropChanges marks candidates for a rebuild and deletes changes until a deadline: the build will read the
// origins themselves. It stops when another process has begun the build, which needs the changes from then
// on.
func (s Store) dropChanges(ctx context.Context, deadline time.Time) (deleted int64, err error) {
	pages, err := s.q.ChangePages(ctx)
	for page := int64(0); page < pages && err == nil && time.Now().Before(deadline); page += dropPages {
		stop := false
		err = s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
			locked, err := tx.q.TryLockCandidates(ctx)
			if err != nil || !locked {
				stop = true
				return err
			}
			if page == 0 {
				if err := tx.q.GiveUpCandidates(ctx, queries.GiveUpCandidatesParams{}); err != nil {
					return err
				}
			}
			build, err := tx.q.BuildPhase(ctx)
			if err != nil || build.Phase != candidates.PhaseEmpty {
				stop = true
				return err
			}
			n, err := tx.q.DropChanges(ctx, queries.DropChangesParams{FirstPage: page, EndPage: page + dropPages})
			deleted += n
			return err
		})
		if stop {
			break
		}
	}
	if err == nil && deleted > 0 { // spares the next call reading their pages; without the privilege it does nothing
		_, err = s.db.Pool().Exec(ctx, "vacuum scheduler_go.candidate_changes")
	}
	return deleted, err
}
