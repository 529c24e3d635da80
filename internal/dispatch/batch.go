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

// batch holds the outcomes of some messages, to be written in one transaction.
type batch struct {
	*Deliverer
	inHand     []ledger.Outgoing
	delivered  Delivered
	confirmed  []ledger.Outgoing
	unanswered []*unanswered
	lost       []*ledger.Outgoing // free to be sent again at once
	refused    []refusal          // by reason
	failed     map[string]refusal // by queue that takes no messages now
	backedOff  []backedOff
	insisted   bool  // the batch waited for disk space
	outage     error // affects all messages
}

// refusal is a reason, with the messages that were refused for it.
type refusal struct {
	rows   []*ledger.Outgoing
	reason error
}

// backedOff are messages that are tried again after a delay.
type backedOff struct {
	refusal
	delay time.Duration
}

// classify sorts messages by their outcomes, and decides which queues and which messages are backed off.
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
			b.log.Error("queue backed off: it takes no messages; the others continue", "queue", queue, "messages", len(r.rows), "again_in", delay, "reason", r.reason)
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

// write records the outcomes. It leaves rows that are to be sent again unchanged.
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

// trackUnanswered keeps unanswered messages, for their leases, and wakes the Deliverer when they are answered.
func (d *Deliverer) trackUnanswered(rows []*unanswered) {
	if len(rows) == 0 {
		return
	}
	d.log.Warn("messages sent and not answered; they are not sent again while their connection is open", "messages", len(rows), "queue", rows[0].row.Queue)
	d.backOff.addUnanswered(rows)
	go func() {
		for _, u := range rows {
			<-u.answer.Answered()
		}
		d.Wake()
	}()
}

// unwritten keeps outcomes that could not be written. This process does not send again the messages that the broker
// has or may have.
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

// settleAnswers writes the outcomes of messages that were answered late, and renews the leases of the others.
// Messages that were lost with their connection become free.
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
		d.log.Info("messages answered late", "confirmed", len(b.confirmed), "sent_again", len(b.lost), "refused", b.delivered.Refused)
	}
	return nil
}

// awaitAnswers waits until no message is unanswered. Messages that are unanswered when ctx ends stay leased for at
// most leaseTime.
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
			return fmt.Errorf("the broker has not answered for %d messages: those that it does not have are sent again in a minute", n)
		}
	}
}
