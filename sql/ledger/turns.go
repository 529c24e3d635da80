package ledger

import (
	"context"
	"time"
)

const (
	// maxPending is the number of pending changes of candidates from which visits leave the lock of candidates to a
	// drain.
	maxPending = 5000

	// turnWait is the longest wait for the turn of another transaction: a few of 1,000 visits.
	turnWait = 100 * time.Millisecond
)

// turns has an element while a transaction of this process moves candidates.
type turns chan struct{}

// A turn keeps transactions of one process from meeting at the lock of candidates. There the second one would only
// record its origins, which costs a drain. nil never begins.
type turn struct {
	turns turns
	held  bool
}

// begin waits until no other transaction of the process has a turn, for at most turnWait: the caller holds locks of
// rows. It returns the number of pending changes from which the caller leaves candidates to a drain.
func (t *turn) begin(ctx context.Context) (maxChanges int64) {
	if t == nil {
		return 0
	}
	wait := time.NewTimer(turnWait)
	defer wait.Stop()
	select {
	case t.turns <- struct{}{}:
		t.held = true
	case <-wait.C:
	case <-ctx.Done():
	}
	return maxPending
}

// end ends the turn, after the transaction.
func (t *turn) end() {
	if t != nil && t.held {
		<-t.turns
		t.held = false
	}
}
