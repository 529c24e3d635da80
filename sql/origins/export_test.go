package origins

import "context"

// LockCandidates takes the lock of who drains or builds candidates.
func (tx *Tx) LockCandidates(ctx context.Context) error { return tx.q.LockCandidates(ctx) }
