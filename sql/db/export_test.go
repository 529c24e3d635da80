package db

import (
	"context"
	"time"
)

// LockCandidates takes the lock of who drains or builds candidates.
func (tx *Tx) LockCandidates(ctx context.Context) error { return tx.q.LockCandidates(ctx) }

// Searches and steps of actions look at fewer tasks in tests, and are taken again sooner.
func init() { searchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
