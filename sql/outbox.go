package sql

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/internal/queries"
)

// deliveriesKept is how long the ledger of deliveries is kept: well above the
// age that the broker's own statistics can have.
const deliveriesKept = time.Minute

// OutboxRow is a claimed message on its way to the broker.
type OutboxRow struct {
	ID       int64
	Queue    string
	TaskID   uuid.UUID     // Celery's task id
	RootID   uuid.NullUUID // Celery's task id of the first try of the same work; null: TaskID
	TaskName string
	Args     json.RawMessage
	Kwargs   json.RawMessage
	Urgent   bool // it is sent before those that are not; not read back

	// TimeLimit is when the worker kills the task, SoftTimeLimit when it raises
	// SoftTimeLimitExceeded in it, both from its start; 0: the worker's own limit.
	TimeLimit, SoftTimeLimit time.Duration

	Attempts int32     // how often it was refused so far
	Claimed  time.Time // when it was written
}

// LockQueue takes a queue's lock until the transaction ends. Every claim for the
// queue takes it, so what one counts as free stays free until it has claimed.
func (tx *Tx) LockQueue(ctx context.Context, queue string) error {
	return tx.q.LockQueue(ctx, queue)
}

// OutboxDepth counts the messages on their way to a queue.
func (a asker) OutboxDepth(ctx context.Context, queue string) (int, error) {
	n, err := a.q.OutboxDepth(ctx, queue)
	return int(n), err
}

// OutboxDue counts the messages that wait to be sent at now: the urgent ones, or
// the others.
func (a asker) OutboxDue(ctx context.Context, now time.Time, urgent bool) (int, error) {
	n, err := a.q.OutboxDue(ctx, queries.OutboxDueParams{Urgent: urgent, Now: now})
	return int(n), err
}

// RecentlyDelivered counts the messages confirmed on a queue since a moment,
// which must be less than a minute ago: the ledger is not kept for longer.
func (a asker) RecentlyDelivered(ctx context.Context, queue string, since time.Time) (int, error) {
	n, err := a.q.RecentlyDelivered(ctx, queries.RecentlyDeliveredParams{Queue: queue, Since: since})
	return int(n), err
}

// NextOutbox locks up to limit rows that are due at now and that no other
// transaction holds: urgent ones first, then oldest first.
func (tx *Tx) NextOutbox(ctx context.Context, now time.Time, limit int) ([]OutboxRow, error) {
	rows, err := tx.q.NextOutbox(ctx, queries.NextOutboxParams{Now: now, MaxRows: int32(limit)})
	if err != nil {
		return nil, err
	}
	out := make([]OutboxRow, len(rows))
	for i, r := range rows {
		out[i] = OutboxRow{
			ID: r.ID, Queue: r.Queue, TaskID: r.TaskID, RootID: r.RootID, TaskName: r.TaskName, Args: r.Args, Kwargs: r.Kwargs,
			TimeLimit: durationOrZero(r.TimeLimit), SoftTimeLimit: durationOrZero(r.SoftTimeLimit),
			Attempts: r.Attempts, Claimed: r.CreatedAt,
		}
	}
	return out, nil
}

// TakeOutbox takes all messages of a queue away, in the order they were written,
// for whoever has a queue of his own in place of a broker's. Of each it tells ID,
// Queue, TaskID and Kwargs.
func (tx *Tx) TakeOutbox(ctx context.Context, queue string) ([]OutboxRow, error) {
	rows, err := tx.q.TakeOutbox(ctx, queue)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b queries.TakeOutboxRow) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]OutboxRow, len(rows))
	for i, r := range rows {
		out[i] = OutboxRow{ID: r.ID, Queue: queue, TaskID: r.TaskID, Kwargs: r.Kwargs}
	}
	return out, nil
}

// Delivered deletes rows that the broker has confirmed and writes in the ledger
// how many each queue got.
func (tx *Tx) Delivered(ctx context.Context, ids []int64, perQueue map[string]int, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	if err := tx.q.DeleteOutbox(ctx, ids); err != nil {
		return err
	}
	for queue, n := range perQueue {
		err := tx.q.RecordDelivery(ctx, queries.RecordDeliveryParams{
			Queue: queue, DeliveredAt: now, Messages: int32(n), ForgetBefore: now.Add(-deliveriesKept),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PostponeOutbox keeps a refused message for later, with the reason.
func (tx *Tx) PostponeOutbox(ctx context.Context, id int64, reason string, until time.Time) error {
	return tx.q.PostponeOutbox(ctx, queries.PostponeOutboxParams{ID: id, Reason: reason, NotBefore: until})
}

// EnqueueMessages writes messages to the outbox, in their order. Their ID,
// Attempts and Claimed are the database's business and not read.
func (tx *Tx) EnqueueMessages(ctx context.Context, messages []OutboxRow) error {
	rows := make([]queries.EnqueueMessagesParams, len(messages))
	for i, m := range messages {
		rows[i] = queries.EnqueueMessagesParams{
			Queue: m.Queue, TaskID: m.TaskID, RootID: m.RootID, TaskName: m.TaskName, Args: m.Args, Kwargs: m.Kwargs, Urgent: m.Urgent,
			TimeLimit: nullable(m.TimeLimit.Seconds()), SoftTimeLimit: nullable(m.SoftTimeLimit.Seconds()),
		}
	}
	_, err := tx.q.EnqueueMessages(ctx, rows)
	return err
}
