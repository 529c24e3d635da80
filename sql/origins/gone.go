package origins

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// FullListing is the last full listing of a lister's instance, with the counts of the origins that it lacks.
type FullListing = queries.FullListingsRow

// These are the states of a full listing.
//
//	none ─► counting ─► disabling ─► done
//	            │           ▲
//	            └─► held ───┴──► dismissed
//
// A new full listing begins to count from any state but counting and disabling.
const (
	ListingCounting  = "counting"
	ListingHeld      = "held" // an operator decides
	ListingDisabling = "disabling"
	ListingDone      = "done"
	ListingDismissed = "dismissed"
)

const (
	goneEvery = 10 * time.Minute
	goneStep  = 5_000              // gone origins a step
	goneKept  = 400 * postgres.Day // as long as actions
	goneMost  = 5_000_000
)

// FullListings returns the last full listing of each lister, ordered by name and instance.
func (a Queries) FullListings(ctx context.Context) ([]FullListing, error) {
	rows, err := a.q.FullListings(ctx)
	return rows, stmt.Failed(err, "read full listings")
}

// Examination is the result of examining the runs that list an instance.
type Examination struct {
	Lister uuid.UUID
	Newest int64  // the number of the newest examined run
	Doubt  string // why that is no full listing; "" if it is one
	// Full is the newest full listing among the examined runs; nil: none. Cutoff is the moment before which its
	// missing origins were last seen, and Listings the number of listings in a row that must lack an origin.
	Full     *model.ListingRun
	Cutoff   time.Time
	Listings int
}

// NoteExamined stores an examination. A full listing replaces the one before, and the count of its origins begins.
func (s Store) NoteExamined(ctx context.Context, e Examination) error {
	err := s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
		err := tx.q.NoteExamined(ctx, queries.NoteExaminedParams{ListerID: e.Lister, Examined: e.Newest, Doubt: e.Doubt})
		if err != nil || e.Full == nil {
			return err
		}
		return tx.q.BeginFullListing(ctx, queries.BeginFullListingParams{
			ListerID: e.Lister, Run: e.Full.ID, Ended: *e.Full.Ended, Cutoff: e.Cutoff, Listings: int32(e.Listings),
		})
	})
	return stmt.Failed(err, "record the listing of lister %s", e.Lister)
}

// ListingSteps counts, or disables, missing origins of full listings in steps. The zero value takes steps of 5,000
// origins; a step that times out is halved.
type ListingSteps struct{ size bulk.BatchSize }

// StepFullListing takes a step of the count or of the disabling of a lister's last full listing, by the rule. A step
// is a transaction, which locks the listing, then missing origins in the order of their keys. It returns the
// listing's state after it, and the number of origins that it disabled. It does nothing in other states.
func (s Store) StepFullListing(ctx context.Context, steps *ListingSteps, lister uuid.UUID, rule model.GoneRule) (state string, disabled int64, err error) {
	most := steps.size.Of(goneStep)
	err = s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.q.LockFullListing(ctx, lister)
		if err != nil || len(rows) == 0 {
			return err
		}
		l := rows[0]
		if state = l.State; state != ListingCounting && state != ListingDisabling || l.Cutoff == nil || l.Ended == nil {
			return nil
		}
		n, err := tx.q.CountMissing(ctx, queries.CountMissingParams{
			ListerID: lister, Cutoff: *l.Cutoff, AfterURL: l.AfterURL, AfterVisitType: l.AfterVisitType, Most: int64(most),
		})
		if err != nil {
			return err
		}
		step := queries.StepFullListingParams{ListerID: lister, AfterURL: n.LastURL, AfterVisitType: n.LastVisitType}
		if state == ListingCounting {
			step.Enabled, step.Missing = n.Enabled, n.Missing
		} else if n.Missing > 0 {
			disabled, err = tx.q.DisableMissing(ctx, queries.DisableMissingParams{
				ListerID: lister, Cutoff: *l.Cutoff, Ended: *l.Ended,
				AfterURL: l.AfterURL, AfterVisitType: l.AfterVisitType, LastURL: n.LastURL, LastVisitType: n.LastVisitType,
			})
			step.Disabled = disabled
		}
		if err == nil && n.Origins > 0 {
			err = tx.q.StepFullListing(ctx, step)
		}
		if err != nil || n.Origins == int64(most) {
			return err
		}
		// All origins were counted, or disabled.
		enabled, missing, allowed := l.Enabled+step.Enabled, l.Missing+step.Missing, l.Allowed
		switch {
		case state == ListingDisabling || missing == 0:
			state = ListingDone
		default:
			state = ListingDisabling
			if allowed = rule.Allowed(enabled); missing > allowed {
				state = ListingHeld
			}
		}
		return tx.q.DecideFullListing(ctx, queries.DecideFullListingParams{ListerID: lister, State: state, Allowed: allowed})
	})
	steps.size.Adjust(most, err)
	return state, disabled, stmt.Failed(err, "go through the origins of lister %s", lister)
}

// AnswerHeldListing lets the missing origins of a held listing go, or dismisses it. It returns false if the listing
// of the run isn't held.
func (a Queries) AnswerHeldListing(ctx context.Context, lister uuid.UUID, run int64, confirm bool) (bool, error) {
	state := ListingDismissed
	if confirm {
		state = ListingDisabling
	}
	n, err := a.q.AnswerHeldListing(ctx, queries.AnswerHeldListingParams{ListerID: lister, Run: run, State: state})
	return n > 0, stmt.Failed(err, "answer the held listing of lister %s", lister)
}

// MissingOrigin is an enabled origin that the last full listing lacks.
type MissingOrigin = queries.MissingOriginsRow

// MissingOrigins returns up to limit enabled origins that the last full listing of a lister lacks, by URL. It may
// read all origins of the lister.
func (a Queries) MissingOrigins(ctx context.Context, lister uuid.UUID, limit int) ([]MissingOrigin, error) {
	rows, err := a.q.MissingOrigins(ctx, queries.MissingOriginsParams{ListerID: lister, Most: int32(limit)})
	return rows, stmt.Failed(err, "read the missing origins of lister %s", lister)
}

// Gone says which listing lacks an origin, by its end, and when the origin was disabled.
type Gone = queries.GoneOriginRow

// GoneOrigin returns the listing because of which an origin was disabled; nil if there is none.
func (a Queries) GoneOrigin(ctx context.Context, o model.ListedOrigin) (*Gone, error) {
	rows, err := a.q.GoneOrigin(ctx, queries.GoneOriginParams{ListerID: o.ListerID, URL: o.URL, VisitType: o.VisitType})
	return stmt.First(rows, stmt.Failed(err, "read whether an origin is gone"))
}

// TakeBackGone takes steps, for about atMost, of a walk over gone origins every ten minutes. The walk counts and
// forgets those that are listed again, and forgets those that are older than 400 days or beyond 5,000,000.
func (s Store) TakeBackGone(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := bulk.Walk[struct{}]{
		Name: "gone origins", Period: goneEvery, StepSize: goneStep,
		Begin: bulk.BeginAt(func(ctx context.Context) (int64, error) {
			p, err := s.q.GonePlaces(ctx)
			return p.First, err
		}),
		End: func(ctx context.Context) (int64, error) {
			p, err := s.q.GonePlaces(ctx)
			return p.End, err
		},
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			p, err := s.q.GonePlaces(ctx)
			if err != nil {
				return err
			}
			return s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
				return tx.q.TakeBack(ctx, queries.TakeBackParams{First: first, Next: end, Before: now.Add(-goneKept), Oldest: p.End - goneMost})
			})
		},
		Finish: func(ctx context.Context, _ struct{}) error { return s.q.ForgetFullListings(ctx) },
	}.Take(ctx, s.q, atMost)
	return err
}
