package dispatch

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

const (
	// insistAtMost is how long a batch waits for disk space in the database. It is less than the 15 minutes
	// after which a round counts as stuck (service.Health).
	insistAtMost = 10 * time.Minute
	insistEvery  = time.Second
)

// While PostgreSQL's disk is full, the outcomes of messages can't be written. A failed transaction releases its
// locks, and another process would send the messages again. So after such a failure, a batch writes at a savepoint:
// its transaction keeps the messages locked, and retries until there is disk space. Otherwise it uses no savepoint,
// because PostgreSQL makes a multixact of each row that is locked before a savepoint and changed after it.

// insist writes a batch, and retries while PostgreSQL has no disk space; for StopBound if ctx has ended.
func (d *Deliverer) insist(ctx, commit context.Context, tx *db.Tx, b *batch) error {
	tries, until := 0, time.Now().Add(insistAtMost)
	stopped := false
	b.insisted = true
	err := tx.RetryWhileDiskFull(commit, func() error { return b.write(commit, tx) }, func(err error) bool {
		if tries++; tries == 1 {
			d.log.Error("PostgreSQL has no disk space for the outcomes of messages; they stay locked until it has", "messages", b.delivered.taken, "error", err)
		}
		if ctx.Err() != nil && !stopped {
			stopped, until = true, time.Now().Add(StopBound)
		}
		<-time.After(insistEvery)
		return time.Now().Before(until)
	})
	if err == nil && tries == 0 {
		d.short.Store(false)
	}
	return err
}

// lockAgain locks the messages of a batch that could not be written, and insists. Between the two transactions,
// another process may have taken some of them.
func (d *Deliverer) lockAgain(ctx context.Context, b *batch) error {
	d.short.Store(true)
	return d.store.ByKey(context.WithoutCancel(ctx), func(commit context.Context, tx *db.Tx) error {
		if err := tx.LockOutgoing(commit, b.inHand); err != nil {
			return err
		}
		return d.insist(ctx, commit, tx, b)
	})
}
