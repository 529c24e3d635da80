package db

import (
	"context"

	"github.com/google/uuid"
)

// NoRoom reports whether PostgreSQL had no room for what was to be written: its disk is full.
func NoRoom(err error) bool { return sqlstate(err) == "53100" }

// Insist calls do at a savepoint. While PostgreSQL has no room for what do writes, it rolls back to the savepoint, and
// calls do again each time that again, given the error, returns true. The transaction keeps the locks that it had
// before. It returns the last error of do.
func (tx *Tx) Insist(ctx context.Context, do func() error, again func(error) bool) error {
	for {
		err := tx.savepoint(ctx, do)
		if !NoRoom(err) || !again(err) {
			return err
		}
	}
}

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
