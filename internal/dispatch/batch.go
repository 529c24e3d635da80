package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// batch is what became of some messages, to be written in one transaction.
type batch struct {
	*Deliverer
	inHand     []ledger.Outgoing
	delivered  Delivered
	confirmed  []ledger.Outgoing
	unanswered []*unanswered
	lost       []*ledger.Outgoing // may be sent again at once
	refused    []refusal          // by what is wrong with them
	failed     map[string]refusal // by queue: it can't take any messages now
	backedOff  []backedOff
	insisted   bool  // on its being written
	outage     error // concerns all messages
}

// refusal is why messages were not taken.
type refusal struct {
	rows   []*ledger.Outgoing
	reason error
}

// backedOff are messages that are tried again after a delay.
type backedOff struct {
	refusal
	delay time.Duration
}

// classify sorts messages by their outcomes, and decides which queues are backed off and which messages are.
func (b *batch) classify(rows []ledger.Outgoing, outcomes []error) {
	b.delivered.taken = len(rows)
	b.failed = make(map[string]refusal)
	for i, err := range outcomes {
		row := rows[i]
		result := "unconfirmed"
		switch late, isLate := errors.AsType[*celery.UnansweredError](err); {
		case err == nil:
			result = "confirmed"
			b.confirmed = append(b.confirmed, row)
		case errors.Is(err, errBackedOff):
			continue
		case isLate:
			result = "unanswered"
			b.unanswered = append(b.unanswered, &unanswered{row, late, b.now()})
		case celery.IsOfQueue(err):
			result = "refused"
			b.failed[row.Queue] = refusal{append(b.failed[row.Queue].rows, &row), err}
		case celery.IsPermanent(err):
			result = "refused"
			b.refused = append(b.refused, refusal{[]*ledger.Outgoing{&row}, err})
		default:
			b.lost = append(b.lost, &row)
			b.outage = err
		}
		b.messages.WithLabelValues(row.Queue, result).Inc()
	}
	b.delivered.Confirmed = len(b.confirmed)
	for _, row := range b.confirmed {
		if b.backOff.works(row.Queue) {
			b.log.Info("the queue takes messages again", "queue", row.Queue)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(b.failed)) {
		r := b.failed[queue]
		delay, longer := b.backOff.fail(queue, b.now())
		if longer {
			b.log.Error("queue backed off: it takes no messages; the others go on", "queue", queue, "messages", len(r.rows), "again_in", delay, "reason", r.reason)
		}
		b.postpone(r, delay)
	}
	for _, r := range b.refused {
		row := r.rows[0]
		delay := retryDelay(row.Attempts)
		b.log.Error("message refused; it will be tried again",
			"task_id", row.TaskID, "task", row.TaskName, "queue", row.Queue,
			"attempt", row.Attempts+1, "again_in", delay, "reason", r.reason)
		b.postpone(r, delay)
	}
	silent := make(map[string]bool)
	for _, u := range b.unanswered {
		if !silent[u.row.Queue] {
			silent[u.row.Queue] = true
			b.backOff.silent(u.row.Queue, b.now())
		}
	}
}

func (b *batch) postpone(r refusal, delay time.Duration) {
	b.delivered.Refused += len(r.rows)
	b.backedOff = append(b.backedOff, backedOff{r, delay})
}

// write records the outcomes. Rows that are to be sent again stay as they are.
func (b *batch) write(ctx context.Context, tx *db.Tx) error {
	for _, p := range b.backedOff {
		if err := tx.BackOff(ctx, p.rows, p.reason.Error(), p.delay); err != nil {
			return err
		}
	}
	if err := lease(ctx, tx, b.unanswered); err != nil {
		return err
	}
	return tx.Confirm(ctx, b.confirmed)
}

// lease writes or renews the leases of messages.
func lease(ctx context.Context, tx *db.Tx, messages []*unanswered) error {
	rows := make([]*ledger.Outgoing, len(messages))
	for i, u := range messages {
		rows[i] = &u.row
	}
	return tx.Lease(ctx, rows, leaseTime)
}

// trackUnanswered keeps the leases of unanswered messages, and wakes the Deliverer when they are
// answered.
func (d *Deliverer) trackUnanswered(rows []*unanswered) {
	if len(rows) == 0 {
		return
	}
	d.log.Warn("messages sent and not answered for; they are not sent again while their connection lives", "messages", len(rows), "queue", rows[0].row.Queue)
	d.backOff.addUnanswered(rows)
	go func() {
		for _, u := range rows {
			<-u.answer.Answered()
		}
		d.Wake()
	}()
}

// unwritten remembers what became of messages although it could not be written: what the
// broker has, or may have, is not sent again by this process.
func (d *Deliverer) unwritten(b batch) {
	var rows []*unanswered
	for _, row := range b.confirmed {
		rows = append(rows, &unanswered{row: row, answer: confirmed{}})
	}
	for _, u := range b.unanswered {
		rows = append(rows, &unanswered{row: u.row, answer: u.answer})
	}
	d.backOff.addUnanswered(rows)
}

// settleAnswers writes what became of messages that were answered late, and renews the
// leases of the others. What was lost with its connection is freed.
func (d *Deliverer) settleAnswers(ctx context.Context) error {
	if !d.settling.TryLock() {
		return nil
	}
	defer d.settling.Unlock()
	now := d.now()
	answered, renew := d.backOff.answers(now)
	if len(answered)+len(renew) == 0 {
		return nil
	}
	b := batch{Deliverer: d}
	rows, outcomes := make([]ledger.Outgoing, len(answered)), make([]error, len(answered))
	for i, u := range answered {
		rows[i], outcomes[i] = u.row, u.answer.Result()
	}
	b.classify(rows, outcomes)
	err := d.store.ByKey(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := errors.Join(tx.Lease(ctx, b.lost, 0), lease(ctx, tx, renew)); err != nil {
			return err
		}
		return b.write(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("write the answers for %d messages: %w", len(rows), err)
	}
	d.backOff.settled(answered, renew, now)
	if len(rows) > 0 {
		d.log.Info("messages answered for late", "confirmed", len(b.confirmed), "sent_again", len(b.lost), "refused", b.delivered.Refused)
	}
	return nil
}

// awaitAnswers waits until no message is unanswered. What still is when ctx ends stays
// leased for at most leaseTime.
func (d *Deliverer) awaitAnswers(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := d.settleAnswers(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		n := d.backOff.waiting()
		if n == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the broker has not answered for %d messages: what it hasn't got is sent again in a minute", n)
		}
	}
}
