package backend

import (
	"context"
	"errors"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/sql/db"
)

// Visits keeps visit stats at an RPC server, as the Python journal client does. It makes
// several calls where a database has one transaction: of two clients that are told of the
// same origin at the same time, one may overwrite what the other wrote.
type Visits struct{ *rpc.Client }

// UpdateVisitStats reads the stats of the given origins and writes what change makes of them.
func (v Visits) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(db.KnownVisits) db.VisitChanges) error {
	if len(keys) == 0 {
		return nil
	}
	stats, err := v.VisitStats(ctx, keys)
	if err != nil {
		return err
	}
	positions, err := v.VisitQueuePositions(ctx)
	if err != nil {
		return err
	}
	known := db.KnownVisits{QueuePositions: map[string]int64{}}
	for _, s := range stats {
		s.LastScheduled = nil // stays as it is
		known.Stats = append(known.Stats, s)
	}
	for _, p := range positions {
		known.QueuePositions[p.VisitType] = p.Position
	}
	changes := change(known)
	// Origins first: after a failure in between, the visits come again and change nothing.
	if len(changes.DisabledURLs) > 0 {
		if err := v.DisableOrigins(ctx, changes.DisabledURLs); err != nil {
			return refused(err)
		}
	}
	if len(changes.Stats) == 0 {
		return nil
	}
	write := make([]model.VisitStats, len(changes.Stats))
	for i, s := range changes.Stats {
		write[i] = *s
	}
	return refused(v.UpsertVisitStats(ctx, write))
}

// refused wraps err in a db.RefusedError if it is about the values.
func refused(err error) error {
	if remote, ok := errors.AsType[*rpc.RemoteError](err); ok && remote.RefusesValues() {
		return db.Refused(err)
	}
	return err
}

// RejectRecords keeps nothing: the server has no place for them. The log names them.
func (Visits) RejectRecords(context.Context, []db.RejectedRecord) error { return nil }

// ReleasedVisits returns none: only lanes hold visits back, and the server tells of none.
func (Visits) ReleasedVisits(context.Context, int) ([]db.HeldVisit, error) { return nil, nil }
