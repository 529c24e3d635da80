package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
)

// KnownVisits is what the database knows of some origins.
type KnownVisits struct {
	// Stats has an element for each origin with a row, without LastScheduled, which may
	// change while the rows are locked for the journal.
	Stats          []model.VisitStats
	LastFailures   map[model.OriginKey]VisitFailure // VisitChanges.LastFailures, as recorded
	QueuePositions map[string]int64                 // by visit type
	// Laned has the sent work of those origins that is requeued if it times out, TimedOut their
	// last time-outs.
	Laned    map[model.OriginKey][]LanedVisit
	TimedOut map[model.OriginKey]LastTimeout
	// Freshness has those of the origins whose visit types have the policy freshness.
	Freshness map[model.OriginKey]origins.OriginFreshness
}

// VisitFailure is the last recorded visit of an origin that failed or found nothing.
type VisitFailure struct {
	Date   time.Time
	InARow int32 // how many did, with it; 0 after one that succeeded
}

// LanedVisit is a visit underway on lanes. It is locked: it neither ends nor moves before the
// transaction ends.
type LanedVisit struct {
	TaskID uuid.UUID // Celery's id of the present try
	Since  time.Time // when that was sent
}

// LastTimeout is a visit that timed out on a lane and was requeued.
type LastTimeout struct {
	Claimed  time.Time
	TimedOut time.Time // by the worker's clock
}

// HeldVisit is a failed visit that does not count yet.
type HeldVisit struct {
	model.OriginKey
	TaskID uuid.UUID // of the try that it may be of
	Date   time.Time
}

// VisitChanges is what some visits change.
type VisitChanges struct {
	Stats        []*model.VisitStats              // of the origins asked for, each once, LastVisit set
	LastFailures map[model.OriginKey]VisitFailure // of origins among Stats, where these don't tell it
	Freshness    []origins.OriginFreshness        // of origins that were visited
	DisabledURLs []string                         // origins to disable until a lister sees them again
	Held         []HeldVisit                      // failed visits that don't count yet
	Counted      []HeldVisit                      // those of them that count now
	Turns        []VisitTurn                      // visits that ended otherwise than the one before
	Ends         Ends                             // the visits that changed something, by visit type and outcome
}

// errStatsAppeared is for new origins that two members of the consumer group met at once.
const errStatsAppeared = postgres.LostRace("another member inserted stats of the same origins")

// UpdateVisitStats locks the stats of the given origins and writes what change returns for them, all in
// one transaction. It neither reads nor writes when the origins were last scheduled. The
// transaction is retried after a conflict, so change may be called several times; it must not keep
// its argument.
//
// For an error of the values see postgres.RefusedError. After any other error it may be unknown
// whether the transaction took place.
func (s Store) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(KnownVisits) VisitChanges) error {
	if len(keys) == 0 {
		return nil
	}
	return postgres.AsRefused(stmt.Failed(postgres.RetryLostRaces(func() error {
		return s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
			known, err := tx.lockVisits(ctx, keys)
			if err != nil {
				return err
			}
			return tx.writeVisits(ctx, known.Stats, change(known))
		})
	}), "update the visit stats of %d origins", len(keys)))
}

func (tx *Tx) lockVisits(ctx context.Context, keys []model.OriginKey) (KnownVisits, error) {
	arg := stmt.Columns[queries.LockVisitStatsParams](keys)
	rows, err := tx.q.LockVisitStats(ctx, arg)
	if err != nil {
		return KnownVisits{}, err
	}
	positions, err := tx.q.VisitSurroundings(ctx)
	if err != nil {
		return KnownVisits{}, err
	}
	failures, err := tx.q.VisitFailures(ctx, queries.VisitFailuresParams(arg))
	if err != nil {
		return KnownVisits{}, err
	}
	known := KnownVisits{
		Stats:        make([]model.VisitStats, 0, len(rows)),
		LastFailures: make(map[model.OriginKey]VisitFailure), QueuePositions: make(map[string]int64),
	}
	for _, r := range rows {
		known.Stats = append(known.Stats, model.VisitStats{
			URL: r.URL, VisitType: r.VisitType, LastSuccessful: r.LastSuccessful, LastVisit: r.LastVisit,
			LastVisitStatus: model.VisitStatus(r.LastVisitStatus), LastSnapshot: r.LastSnapshot, NextVisitQueuePosition: r.NextVisitQueuePosition,
			NextPositionOffset: r.NextPositionOffset, SuccessiveVisits: r.SuccessiveVisits,
		})
	}
	for _, f := range failures {
		known.LastFailures[model.OriginKey{URL: f.URL, VisitType: f.VisitType}] = VisitFailure{f.LastFailure, f.InARow}
	}
	lanes, fresh := false, false
	for _, p := range positions {
		if p.VisitType != nil {
			known.QueuePositions[*p.VisitType] = *p.Position
		}
		lanes, fresh = p.Lanes, p.Freshness
	}
	if fresh {
		known.Freshness = make(map[model.OriginKey]origins.OriginFreshness)
		origins, err := origins.FreshnessOf(ctx, tx.q, keys)
		if err != nil {
			return KnownVisits{}, err
		}
		for _, o := range origins {
			known.Freshness[o.OriginKey] = o
		}
	}
	if lanes {
		err = tx.lockLanedVisits(ctx, arg, &known)
	}
	return known, err
}

// lockLanedVisits reads the visits on lanes, then the timed-out ones: a visit that times
// out meanwhile is found in one of the two.
func (tx *Tx) lockLanedVisits(ctx context.Context, arg queries.LockVisitStatsParams, known *KnownVisits) error {
	laned, err := tx.q.LanedVisits(ctx, queries.LanedVisitsParams(arg))
	if err != nil {
		return err
	}
	timeouts, err := tx.q.VisitTimeouts(ctx, queries.VisitTimeoutsParams(arg))
	if err != nil {
		return err
	}
	known.Laned = make(map[model.OriginKey][]LanedVisit)
	known.TimedOut = make(map[model.OriginKey]LastTimeout)
	for _, l := range laned {
		key := model.OriginKey{URL: l.URL, VisitType: l.VisitType}
		known.Laned[key] = append(known.Laned[key], LanedVisit{TaskID: l.TaskID, Since: l.Since})
	}
	for _, o := range timeouts {
		known.TimedOut[model.OriginKey{URL: o.URL, VisitType: o.VisitType}] = LastTimeout{Claimed: o.Claimed, TimedOut: model.UnixTime(o.TimedOut)}
	}
	return nil
}

// writeVisits updates the rows of known and inserts the others, in the order of
// their keys: every member waits for another in the same order.
func (tx *Tx) writeVisits(ctx context.Context, known []model.VisitStats, changes VisitChanges) error {
	hasRow := make(map[model.OriginKey]bool, len(known))
	for _, s := range known {
		hasRow[model.OriginKey{URL: s.URL, VisitType: s.VisitType}] = true
	}
	type row struct {
		*model.VisitStats
		Succeeded bool // ever
	}
	var old, fresh []row
	for _, s := range changes.Stats {
		r := row{s, s.LastSuccessful != nil}
		if hasRow[model.OriginKey{URL: s.URL, VisitType: s.VisitType}] {
			old = append(old, r)
		} else {
			fresh = append(fresh, r)
		}
	}
	slices.SortFunc(fresh, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.VisitType, b.VisitType))
	})
	insert := func(ctx context.Context, p queries.InsertVisitStatsParams) error {
		inserted, err := tx.q.InsertVisitStats(ctx, p)
		if err == nil && inserted < int64(len(fresh)) {
			err = errStatsAppeared
		}
		return err
	}
	return stmt.InOrder(ctx,
		stmt.Arrays(changes.Stats, tx.q.NoteVisits),
		stmt.Arrays(old, tx.q.UpdateVisitStats),
		stmt.Arrays(fresh, insert),
		stmt.Arrays(stmt.Entries(changes.LastFailures), tx.q.RecordVisitFailures),
		stmt.Arrays(changes.Turns, tx.q.RecordVisitTurns),
		stmt.Arrays(changes.Held, tx.q.HoldVisits),
		stmt.Arrays(changes.Counted, tx.q.DropHeldVisits),
		func(ctx context.Context) error {
			return origins.WriteFreshness(ctx, tx.q, changes.Freshness, time.Time{})
		},
		stmt.Keys(changes.DisabledURLs, tx.q.DisableListedOrigins),
		tx.countEnded(changes.Ends))
}

// ReleasedVisits lists up to limit failed visits that were kept back, whose try has
// ended and was not requeued: they count.
func (s Store) ReleasedVisits(ctx context.Context, limit int) ([]HeldVisit, error) {
	rows, err := s.q.ReleasedVisits(ctx, int32(limit))
	return stmt.List(rows, stmt.Failed(err, "list failed visits that were kept back"), func(r queries.ReleasedVisitsRow) HeldVisit {
		return HeldVisit{OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Date: r.Date}
	})
}
