package ledger

import (
	"context"

	"github.com/google/uuid"
)

// LockOutgoing locks those of the messages that are still outgoing, as NextOutgoing does. It skips messages
// that another transaction holds or has taken.
func (tx *Tx) LockOutgoing(ctx context.Context, messages []Outgoing) error {
	ids := make([]uuid.UUID, len(messages))
	for i, m := range messages {
		ids[i] = m.TaskID
	}
	_, err := tx.q.LockOutgoing(ctx, ids)
	return err
}
