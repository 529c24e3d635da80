package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
)

// KnownVisits is the database's state of some origins.
type KnownVisits struct {
	// Stats has an element for each origin with a row. It lacks LastScheduled, which may change while the
	// journal's transaction holds the locks.
	Stats          []model.VisitStats
	LastFailures   map[model.OriginKey]VisitFailure // VisitChanges.LastFailures, as recorded
	QueuePositions map[string]int64                 // by visit type
	// Laned is the origins' sent work that is requeued after a time-out, or that their hosters may refuse; TimedOut is
	// their last time-outs and refused visits.
	Laned    map[model.OriginKey][]LanedVisit
	TimedOut map[model.OriginKey][]LastTimeout
	// Freshness has the origins whose visit types have the policy freshness.
	Freshness map[model.OriginKey]origins.OriginFreshness
}

// VisitFailure is an origin's last recorded visit that failed or found nothing.
type VisitFailure struct {
	Date   time.Time
	InARow int32 // the number of such visits in a row; 0 after a success
}

// LanedVisit is a visit underway on lanes. Its lock keeps it from ending and from moving until the
// transaction ends.
type LanedVisit struct {
	TaskID uuid.UUID // Celery task id of this try
	Since  time.Time // when this try was sent
}

// LastTimeout is a visit that timed out on a lane and was requeued, or that its hoster refused.
type LastTimeout struct {
	Claimed  time.Time
	TimedOut time.Time // by the worker's clock
}

// HeldVisit is a failed visit that doesn't count yet.
type HeldVisit struct {
	model.OriginKey
	TaskID uuid.UUID // the try that it may belong to
	Date   time.Time
}

// VisitChanges are the changes of a batch of visits.
type VisitChanges struct {
	Stats        []*model.VisitStats                      // of the given origins, each once, with LastVisit set
	LastFailures map[model.OriginKey]VisitFailure         // of origins in Stats whose Stats lack it
	Freshness    []origins.OriginFreshness                // of visited origins
	News         map[origins.Newscaster]freshness.Quality // what the visits show of the quality of news
	DisabledURLs []string                                 // origins to disable until a lister lists them again
	Held         []HeldVisit                              // failed visits that don't count yet
	Counted      []HeldVisit                              // held visits that count now
	Turns        []VisitTurn                              // visits whose outcome differs from the visit before
	Ends         Ends                                     // visits that changed something, by visit type and outcome
}

// maxPending is the number of pending changes of candidates from which visits leave the lock of candidates to a
// drain. Otherwise several journal clients could keep it from drains.
const maxPending = 5000

// errStatsAppeared reports new origins that two members of the consumer group inserted at once.
const errStatsAppeared = postgres.LostRace("another member inserted stats of the same origins")

// UpdateVisitStats locks the stats of the origins, calls change, and writes its changes, all in one
// transaction. It neither reads nor writes last_scheduled. It retries the transaction after a conflict, so
// it may call change several times. change must not keep its argument.
//
// A refused value gives a *postgres.RefusedError. After any other error, the caller can't know whether the
// transaction took effect.
func (s Store) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(KnownVisits) VisitChanges) error {
	if len(keys) == 0 {
		return nil
	}
	update := func(maxPending int64) error {
		return s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
			known, err := tx.lockVisits(ctx, keys)
			if err != nil {
				return err
			}
			return tx.writeVisits(ctx, maxPending, known.Stats, change(known))
		})
	}
	err := postgres.RetryLostRaces(func() error { return update(maxPending) })
	if _, refused := errors.AsType[*postgres.RefusedError](postgres.AsRefused(err)); refused {
		// The value may be a candidate's. A drain sets that origin aside, and the visit counts.
		err = postgres.RetryLostRaces(func() error { return update(0) })
	}
	return postgres.AsRefused(stmt.Failed(err, "update the visit stats of %d origins", len(keys)))
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
			URL: r.URL, VisitType: r.VisitType, LastSuccessful: stmt.NullableTime(r.LastSuccessful), LastVisit: stmt.NullableTime(r.LastVisit),
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

// lockLanedVisits reads the visits on lanes first and the time-outs second. A visit that times out in
// between is in one of the two.
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
	known.TimedOut = make(map[model.OriginKey][]LastTimeout)
	for _, l := range laned {
		key := model.OriginKey{URL: l.URL, VisitType: l.VisitType}
		known.Laned[key] = append(known.Laned[key], LanedVisit{TaskID: l.TaskID, Since: l.Since})
	}
	for _, o := range timeouts {
		key := model.OriginKey{URL: o.URL, VisitType: o.VisitType}
		known.TimedOut[key] = append(known.TimedOut[key], LastTimeout{Claimed: o.Claimed, TimedOut: model.UnixTime(o.TimedOut)})
	}
	return tx.lastRefused(ctx, arg, known.TimedOut)
}

// writeVisits updates the rows in known and inserts the others, each in the order of keys, as all members of the
// group do. It moves the candidates of the origins if it gets their lock and fewer than maxPending changes of candidates
// are pending. Otherwise it records the origins for a drain.
//
// It takes the lock of candidates late, and never waits for it: meanwhile claims and drains do without. Who waits for that
// lock holds no other, so the statements after it may wait for rows.
func (tx *Tx) writeVisits(ctx context.Context, maxPending int64, known []model.VisitStats, changes VisitChanges) error {
	hasRow := make(map[model.OriginKey]bool, len(known))
	for _, s := range known {
		hasRow[model.OriginKey{URL: s.URL, VisitType: s.VisitType}] = true
	}
	type row struct {
		*model.VisitStats
		Succeeded bool // at any time
		Fresh     bool
	}
	rows := make([]row, len(changes.Stats))
	for i, s := range changes.Stats {
		rows[i] = row{s, s.LastSuccessful != nil, !hasRow[model.OriginKey{URL: s.URL, VisitType: s.VisitType}]}
	}
	writeStats := func(ctx context.Context, p queries.WriteVisitStatsParams) (err error) {
		open, err := tx.q.OpenCandidates(ctx, maxPending)
		if err != nil {
			return err
		}
		var written int64
		if open {
			written, err = tx.q.WriteVisitStats(ctx, p)
		} else {
			written, err = tx.q.RecordVisitStats(ctx, queries.RecordVisitStatsParams(p))
		}
		if err == nil && written < int64(len(rows)) {
			err = errStatsAppeared
		}
		return err
	}
	return stmt.InOrder(ctx,
		stmt.Arrays(stmt.Entries(changes.LastFailures), tx.q.RecordVisitFailures),
		stmt.Arrays(changes.Turns, tx.q.RecordVisitTurns),
		stmt.Arrays(changes.Held, tx.q.HoldVisits),
		stmt.Arrays(changes.Counted, tx.q.DropHeldVisits),
		func(ctx context.Context) error {
			return origins.WriteFreshness(ctx, tx.q, changes.Freshness, time.Time{}) // moments of candidates depend on it
		},
		stmt.Keys(changes.DisabledURLs, tx.q.DisableListedOrigins),
		stmt.Arrays(rows, writeStats),
		tx.countEnded(changes.Ends),
		// The last statement: many batches lock the row of a large lister.
		func(ctx context.Context) error { return origins.RecordNews(ctx, tx.q, changes.News) })
}

// ReleasedVisits lists up to limit held failed visits that now count: their try has ended without a
// requeue.
func (s Store) ReleasedVisits(ctx context.Context, limit int) ([]HeldVisit, error) {
	rows, err := s.q.ReleasedVisits(ctx, int32(limit))
	return stmt.List(rows, stmt.Failed(err, "list held failed visits that count"), func(r queries.ReleasedVisitsRow) HeldVisit {
		return HeldVisit{OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Date: r.Date}
	})
}
