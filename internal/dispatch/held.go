package dispatch

import (
	"context"
	"math"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

// ObserveQueue returns the broker's observation of one queue, for QueueUpperBound. Its dates are lower bounds of the
// database's time. It may take seconds, so the caller must hold no lock and no transaction.
func ObserveQueue(ctx context.Context, store *db.Store, broker Observer, queue string) (celery.Observation, error) {
	observed, err := observe(ctx, store, broker, true, queue)
	return observed[queue], err
}

// QueueUpperBound returns an upper bound of the messages of a queue: ready and unacknowledged at the broker, and outgoing
// in the ledger. It returns math.MaxInt while the number of unacknowledged messages is unknown.
//
// The transaction must hold the queue's lock (db.Tx.LockQueues), and observed must be older than that lock. The
// bound is then valid until the transaction ends, as no claim adds messages. celery.IsOfQueue holds for the error if
// only this queue can't be observed.
func QueueUpperBound(ctx context.Context, tx *db.Tx, queue string, observed celery.Observation) (int, error) {
	counts, err := countMessages(ctx, tx, observations{queue: observed}, queue)
	switch {
	case err != nil:
		return 0, err
	case counts[0].err != nil:
		return 0, counts[0].err
	case counts[0].Unknown:
		return math.MaxInt, nil
	}
	return counts[0].total(), nil
}
