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

// MaxCandidateChanges is how many changes of candidates are kept, some 700 MB. To build
// candidates anew then takes no longer than to drain them.
const MaxCandidateChanges = 5_000_000

// dropPages is how many pages of changes are deleted in one transaction: a million, in one
// or two seconds.
const dropPages = 10_000

// Bounded is what one call of BoundChanges did.
type Bounded struct {
	Drained int64
	GivenUp bool  // candidates are not used until they are built anew
	Deleted int64 // changes, which the build does not need
}

func (b Bounded) String() string {
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

// BoundChanges drains the changes of candidates for about atMost, if candidates are built. If there
// are more than limit, built or not, it gives candidates up: it deletes the changes, and
// candidates are empty until MaintainCandidates or Migrate builds them anew. Meanwhile grabs read
// the tables.
func (s Store) BoundChanges(ctx context.Context, limit int64, atMost time.Duration) (b Bounded, err error) {
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
			var kept Maintained
			kept, err = s.MaintainCandidates(ctx)
			b.Drained += kept.Drained
			more = kept.More
		}
	}
	return b, err
}

// dropChanges marks candidates as to be built anew and deletes changes until a deadline: the build
// will read the origins themselves. It stops when another process has begun the build, which
// needs the changes from then on.
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
	if err == nil && deleted > 0 { // the next call would read their pages; without the privilege, this does nothing
		_, err = s.db.Pool().Exec(ctx, "vacuum scheduler_go.candidate_changes")
	}
	return deleted, err
}
