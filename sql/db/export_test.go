package db

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// LockCandidates takes the lock of who drains or builds candidates.
func (tx *Tx) LockCandidates(ctx context.Context) error { return tx.q.LockCandidates(ctx) }

// Inner returns the transaction itself.
func (tx *Tx) Inner() pgx.Tx { return tx.tx }

// Raw returns the transaction of PostgreSQL's client.
func (tx *Tx) Raw() pgx.Tx { return tx.tx }

// BoundGraphs bounds the next round of the drain of graphs to so many tasks, as rounds before
// that timed out would; 0: no bound.
func (s GraphStore) BoundGraphs(tasks int) {
	if tasks == 0 {
		tasks = math.MaxInt / 2
	}
	s.drains.graphs.Note(2*tasks, context.DeadlineExceeded)
}

// Searches and steps of actions look at fewer tasks in tests, and are taken again sooner.
func init() { searchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
