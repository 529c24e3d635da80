package db

import (
	"context"
	"time"

	"swh-scheduler/sql/internal/queries"
)

// Figures are figures for monitoring. They take a few steps along indexes; Counted and Runs
// are what the last walks over whole tables found, Ready what one process counted in the last
// minute and a half, if one did (counts.go).
type Figures struct {
	Outgoing  []OutgoingQueue
	Ready     []ReadyTasks
	Origins   []queries.OriginCountsRow
	Positions []QueuePosition
	Active    []queries.ActiveOriginsRow
	Counted   []queries.MetricsAgeRow
	SetAside  queries.CountSetAsideRow
	Rejected  queries.CountRejectedRow

	// CandidateChanges counts the changes that candidates don't show yet, up to
	// MaxCandidateChanges.
	CandidateChanges int64

	Build Build                 // of candidates
	Pools map[string]PoolCounts // by visit type
	// Freshness is by visit type, of those with the policy.
	Freshness map[string]FreshnessCounts
	Runs      RunCounts
}

// Figures takes figures as of now.
func (s MonitorStore) Figures(ctx context.Context, now time.Time) (f Figures, err error) {
	if f.Outgoing, err = s.q.OutgoingByQueue(ctx); err != nil {
		return f, failed(err, "look at outgoing messages")
	}
	if f.Ready, err = s.readyTasks(ctx, now); err != nil {
		return f, failed(err, "look at ready tasks")
	}
	if f.Origins, err = s.q.OriginCounts(ctx); err != nil {
		return f, failed(err, "read the counts of origins")
	}
	if f.Positions, err = s.q.VisitQueuePositions(ctx); err != nil {
		return f, failed(err, "read queue positions")
	}
	if f.Active, err = s.q.ActiveOrigins(ctx); err != nil {
		return f, failed(err, "read the counts of active origins")
	}
	if f.Counted, err = s.q.MetricsAge(ctx); err != nil {
		return f, failed(err, "read the age of the counts of origins")
	}
	if f.SetAside, err = s.q.CountSetAside(ctx, maxCounted); err != nil {
		return f, failed(err, "count what is set aside")
	}
	if f.Rejected, err = s.q.CountRejected(ctx); err != nil {
		return f, failed(err, "count the rejected events and records")
	}
	if f.CandidateChanges, err = s.q.CandidateBacklog(ctx, MaxCandidateChanges); err != nil {
		return f, failed(err, "count the changes of candidates")
	}
	build, err := s.q.BuildPhase(ctx)
	if err != nil {
		return f, failed(err, "look whether candidates are built")
	}
	f.Build = Build(build)
	counted, err := resultOf[originCounts](ctx, s.q, originWalk)
	if err != nil {
		return f, err
	}
	f.Pools = counted.Pools
	if build.ByFreshness {
		found, err := resultOf[freshnessWalk](ctx, s.q, freshnessName)
		if err != nil {
			return f, err
		}
		f.Freshness = found.VisitTypes
	}
	f.Runs, err = resultOf[RunCounts](ctx, s.q, runWalk)
	return f, err
}

type (
	// QueuePosition is how far the queue of visits of a visit type is.
	QueuePosition = queries.VisitSchedulerQueuePosition
	// OutgoingQueue counts the outgoing messages of a queue.
	OutgoingQueue = queries.OutgoingByQueueRow
	// ReadyTasks counts the ready tasks of a type and a priority.
	ReadyTasks = queries.OldestReadyRow
)

// LedgerQueue is what the ledger knows of a queue.
type LedgerQueue = queries.LedgerQueuesRow

// LedgerQueues returns what the ledger knows of queues.
func (s MonitorStore) LedgerQueues(ctx context.Context) ([]LedgerQueue, error) {
	rows, err := s.q.LedgerQueues(ctx)
	return rows, failed(err, "look at the ledger's queues")
}
