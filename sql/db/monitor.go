package db

import (
	"context"
	"time"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/origins"
)

// Figures are the figures for monitoring. Pools, Freshness and Runs are results of the last walks over
// whole tables. So is Ready if that result is young enough (counts.go). The other figures cost a few index
// scans.
type Figures struct {
	Outgoing  []OutgoingQueue
	Ready     []ReadyTasks
	Origins   []queries.OriginCountsRow
	Positions []origins.VisitQueuePosition
	Active    []queries.ActiveOriginsRow
	Counted   []queries.MetricsAgeRow
	SetAside  queries.CountSetAsideRow
	Rejected  queries.CountRejectedRow
	Gone      []ListingFigures // by lister

	HintSources []origins.HintSource

	EventsAge float64 // seconds since the moment up to which all events are recorded (ledger.Queries.EndsKnown)

	// CandidateChanges counts the changes not yet drained into candidates, up to
	// origins.MaxCandidateChanges.
	CandidateChanges int64

	Build candidates.Build      // of candidates
	Pools map[string]PoolCounts // by visit type
	// Freshness is by visit type, for those with the policy freshness.
	Freshness map[string]origins.FreshnessCounts
	Runs      RunCounts
	// Flows are the inputs of forecasts, by visit type. LateListers counts the listers that are behind or
	// have stopped.
	Flows       []freshness.Flow
	LateListers map[freshness.ListingState]int
	Silent      SilentRuns // zero if the last sweep is older than an hour
}

// ListingFigures are the counts of a lister's full listings that are held or doubtful, and of its gone origins.
type ListingFigures = queries.GoneFiguresRow

// Figures returns the figures as of now.
func (s MonitorStore) Figures(ctx context.Context, now time.Time) (f Figures, err error) {
	err = stmt.InOrder(ctx,
		stmt.Into(&f.Outgoing, s.q.OutgoingByQueue, "count outgoing messages"),
		stmt.Into(&f.Ready, func(ctx context.Context) ([]ReadyTasks, error) { return s.readyTasks(ctx, now) }, "count ready tasks"),
		stmt.Into(&f.Origins, s.q.OriginCounts, "read the counts of origins"),
		stmt.Into(&f.Positions, s.q.VisitQueuePositions, "read queue positions"),
		stmt.Into(&f.Active, s.q.ActiveOrigins, "read the counts of active origins"),
		stmt.Into(&f.Counted, s.q.MetricsAge, "read the age of the counts of origins"),
		stmt.Into(&f.SetAside, func(ctx context.Context) (queries.CountSetAsideRow, error) { return s.q.CountSetAside(ctx, maxCounted) }, "count what is set aside"),
		stmt.Into(&f.Rejected, s.q.CountRejected, "count the rejected events and records"),
		stmt.Into(&f.HintSources, s.rooms.HintSources, "read the sources of hints"),
		stmt.Into(&f.Gone, s.q.GoneFigures, "count the listings that are held"),
		stmt.Into(&f.EventsAge, s.q.EventsAge, "read up to when events are known"),
		stmt.Into(&f.CandidateChanges, func(ctx context.Context) (int64, error) {
			return s.q.CandidateBacklog(ctx, origins.MaxCandidateChanges)
		}, "count the changes of candidates"),
		stmt.Into((*queries.BuildPhaseRow)(&f.Build), s.q.BuildPhase, "check whether candidates are built"))
	if err != nil {
		return f, err
	}
	counted, err := bulk.ResultOf[originCounts](ctx, s.q, originWalk)
	if err != nil {
		return f, err
	}
	f.Pools = counted.Pools
	if f.Build.ByFreshness {
		if f.Freshness, err = s.rooms.FreshnessCounts(ctx); err != nil {
			return f, err
		}
	}
	if f.Runs, err = bulk.ResultOf[RunCounts](ctx, s.q, runWalk); err != nil {
		return f, err
	}
	if f.Flows, f.LateListers, err = s.flowsAndListers(ctx, now); err != nil {
		return f, err
	}
	silent, young, err := bulk.RecentResultOf[SilentRuns](ctx, s.q, lostWalk, time.Hour)
	if young {
		f.Silent = silent
	}
	return f, err
}

type (
	// OutgoingQueue counts the outgoing messages of a queue.
	OutgoingQueue = queries.OutgoingByQueueRow
	// ReadyTasks counts the ready tasks of a type and a priority.
	ReadyTasks = queries.OldestReadyRow
	// LedgerQueue is the ledger's state of a queue.
	LedgerQueue = queries.LedgerQueuesRow
)

// LedgerQueues returns the ledger's state of all its queues.
func (s MonitorStore) LedgerQueues(ctx context.Context) ([]LedgerQueue, error) {
	rows, err := s.q.LedgerQueues(ctx)
	return rows, stmt.Failed(err, "read the ledger's queues")
}
