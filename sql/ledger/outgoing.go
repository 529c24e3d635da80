package ledger

import (
	"context"

	"github.com/google/uuid"
)

// LockOutgoing locks messages that are still outgoing, as NextOutgoing does, and leaves out those that another
// transaction holds or has taken since.
func (tx *Tx) LockOutgoing(ctx context.Context, messages []Outgoing) error {
	ids := make([]uuid.UUID, len(messages))
	for i, m := range messages {
		ids[i] = m.TaskID
	}
	_, err := tx.q.LockOutgoing(ctx, ids)
	return err
}
