package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// DeliveriesKept is how long confirmed deliveries are kept: well above the age that the
// broker's own statistics can have.
const DeliveriesKept = 5 * time.Minute

// Work is a row of the ledger: one message, from its claim until nothing more can be
// heard of it. docs/explanation/architecture.md has its states. A claim creates it; zero values mean
// none.
type Work struct {
	TaskID   uuid.UUID     // Celery's task id
	RootID   uuid.NullUUID // Celery's task id of the first try; null if this is it
	Queue    string        // routing key; "" in a backlog
	Home     string        // the queue that it was claimed for
	TaskName string
	Args     json.RawMessage
	Kwargs   json.RawMessage
	Urgent   bool      // sent before what is not urgent
	Claimed  time.Time // by the database's clock

	Share   Share
	Lane    WorkLane
	Hosters []string // for whose limits it counts

	Tried    bool    // the last run of its task failed; not stored
	Updated  float64 // origins.GrabbedVisit.Updated; not stored
	Attempts int32   // how often the broker refused it; not written by AddWork
}

// Share is the group of a message and its expected cost; the zero value is no group.
type Share struct {
	Shared bool
	Group  string
	Cost   float64 // seconds

	// Priority is that of the message in a queue with x-max-priority.
	Priority uint8
}

// WorkLane is the lane of a message; the zero value is none.
type WorkLane struct {
	Set     string // key of the lane set in the configuration; "" without lanes
	Number  int    // in the set, from 0
	Backlog bool   // it waits for a slot of the lane
	Name    string // the lane's; "" in a backlog
	Left    int    // how many lanes come after it
	Retried bool   // a time-out is no final failure if no lane comes after it

	// SoftLimit is when the worker raises SoftTimeLimitExceeded in the task, HardLimit
	// when it kills it, both from its start; 0: the worker's own limit.
	SoftLimit, HardLimit time.Duration

	Expected  float64 // seconds that it is predicted to run; 0 if unknown
	Below     float64 // soft limit in seconds of the lane that it was predicted to outlast; 0 if none
	VisitType string  // of the origin that it visits
	URL       string
	LaneFeatures
}

// kept reports whether the row is needed until its end is heard.
func (w *Work) kept() bool { return w.Share.Shared || w.Lane.Set != "" || len(w.Hosters) > 0 }

// LockQueues takes the advisory locks of some queues until the transaction ends. Every
// claim for a queue takes its lock, so what it counts as free stays free until it commits.
// On a host whose clock is wrong it returns a *postgres.ClockError.
func (tx *Tx) LockQueues(ctx context.Context, queues ...string) error {
	began := time.Now()
	locks, err := tx.q.LockQueues(ctx, slices.Compact(slices.Sorted(slices.Values(queues))))
	if err != nil {
		return err
	}
	last := locks[len(locks)-1]
	return tx.NoteTime(last.Asked, last.Locked, time.Since(began))
}

// QueueLedger is what the ledger knows of a queue.
type QueueLedger struct {
	Outgoing int // messages
	Before   int // messages confirmed by the broker from QueueObserved.Since on, and before QueueObserved.Asked
	After    int // messages confirmed by the broker from QueueObserved.Asked on
}

// QueueObserved says when a queue was observed, by the database's clock.
type QueueObserved struct {
	Name  string
	Since time.Time // the earliest moment that the broker's statistics may be of; less than DeliveriesKept ago
	Asked time.Time // before the broker itself was asked, and not before Since
}

// QueueLedgers returns what the ledger knows of some queues, in their order. All of it is read in one statement: a
// message is outgoing or confirmed in it, never neither.
func (a Queries) QueueLedgers(ctx context.Context, observed ...QueueObserved) ([]QueueLedger, error) {
	var p queries.QueueLedgersParams
	for _, o := range observed {
		p.Queues, p.Since, p.Asked = append(p.Queues, o.Name), append(p.Since, o.Since), append(p.Asked, o.Asked)
	}
	rows, err := a.q.QueueLedgers(ctx, p)
	return stmt.List(rows, err, func(r queries.QueueLedgersRow) QueueLedger {
		return QueueLedger{Outgoing: int(r.Outgoing), Before: int(r.Before), After: int(r.After)}
	})
}

// SentMessages counts the work of a queue that was sent and is not known to have ended. Only
// work of groups, lanes and hosters is kept that long.
func (a Queries) SentMessages(ctx context.Context, queue string) (int, error) {
	n, err := a.q.SentMessages(ctx, queue)
	return int(n), err
}

// OutgoingDue counts the messages that are due to be sent by the database's clock: the
// urgent ones, or the others. Queues that are backed off don't count.
func (a Queries) OutgoingDue(ctx context.Context, urgent bool) (int, error) {
	n, err := a.q.OutgoingDue(ctx, urgent)
	return int(n), err
}

// lowWaterStep is how many places work, changes of candidates or graphs get between two rises of the
// low-water marks: a look passes by index entries of so many rows that are gone, and of those of
// two calls of RaiseLowWater.
const lowWaterStep = 5000

// RaiseLowWater raises the places below which no work is outgoing and no change of candidates or
// graphs is pending, so that looks at them don't pass by what is gone, which stays as long as the oldest
// snapshot of the database. Called now and then, it writes seldom: versions of its row stay, too.
func (a Queries) RaiseLowWater(ctx context.Context) error {
	return stmt.Failed(a.q.RaiseLowWater(ctx, lowWaterStep), "raise the low-water marks")
}

// LowerLowWater lowers them if there is outgoing work or a pending change below, and reports
// whether there was: a mistake, or rows that somebody wrote by hand. It passes by all that is gone.
func (a Queries) LowerLowWater(ctx context.Context) (bool, error) {
	n, err := a.q.LowerLowWater(ctx)
	return n > 0, stmt.Failed(err, "find rows below the low-water marks")
}

// Outgoing is a message that a deliverer has locked.
type Outgoing struct {
	Work
	Kept bool // it stays in the ledger once it is sent

	// Until is when it was read, or the end of its lease. Another deliverer that takes it
	// later puts it off beyond that.
	Until time.Time
}

// NextOutgoing locks up to limit messages, urgent ones or the others, that are due by the
// database's clock, that no other transaction holds and that are not to be skipped, by their queue or
// by themselves, oldest first. The transaction is begun by db.Store.ByPlace (postgres.ByPlace).
func (tx *Tx) NextOutgoing(ctx context.Context, urgent bool, limit int, skip []string, skipRows []uuid.UUID) ([]Outgoing, error) {
	rows, err := tx.q.NextOutgoing(ctx, queries.NextOutgoingParams{Urgent: urgent, Skip: skip, SkipRows: skipRows, MaxRows: int32(limit)})
	return stmt.List(rows, err, func(r queries.NextOutgoingRow) Outgoing {
		return Outgoing{Kept: r.Kept, Until: r.Until, Work: Work{
			TaskID: r.TaskID, RootID: r.RootID, Queue: r.Queue, Home: stmt.OrZero(r.Home), Share: Share{Priority: uint8(r.Priority)}, TaskName: r.TaskName, Args: r.Args, Kwargs: r.Kwargs,
			Claimed: r.Claimed, Attempts: r.Attempts,
			Lane: WorkLane{SoftLimit: model.Duration(stmt.OrZero(r.SoftLimit)), HardLimit: model.Duration(stmt.OrZero(r.HardLimit))},
		}}
	})
}

// PassedWork returns, by queue, the lowest priority of the work of groups of some home queues
// that no worker had begun so long after it was sent, as far as starts are known (EndsKnown).
func (tx *Tx) PassedWork(ctx context.Context, homes []string, now time.Time, ageing time.Duration) (map[string]uint8, error) {
	rows, err := tx.q.PassedWork(ctx, queries.PassedWorkParams{Homes: homes, Now: now, Ageing: ageing.Seconds()})
	lowest := make(map[string]uint8, len(rows))
	for _, r := range rows {
		lowest[r.Queue] = uint8(r.Priority)
	}
	return lowest, stmt.Failed(err, "read the lowest priority of overdue work")
}

// Confirm records that the broker has confirmed some messages: those that are kept
// become sent, the others leave the ledger. Messages whose rows are gone count as delivered, too.
func (tx *Tx) Confirm(ctx context.Context, confirmed []Outgoing) error {
	if len(confirmed) == 0 {
		return nil
	}
	var kept, gone []uuid.UUID
	perQueue := make(map[string]int32)
	for _, m := range confirmed {
		perQueue[m.Queue]++
		if m.Kept {
			kept = append(kept, m.TaskID)
		} else {
			gone = append(gone, m.TaskID)
		}
	}
	return stmt.InOrder(ctx, stmt.Keys(gone, tx.q.DropWork), stmt.Keys(kept, tx.q.MarkSent), tx.recordDeliveries(perQueue))
}

// recordDeliveries writes how many messages queues got.
func (tx *Tx) recordDeliveries(perQueue map[string]int32) stmt.Step {
	p := queries.RecordDeliveriesParams{Kept: DeliveriesKept.Seconds()}
	for queue, n := range perQueue {
		p.Queues = append(p.Queues, queue)
		p.Messages = append(p.Messages, n)
	}
	return func(ctx context.Context) error {
		if len(p.Queues) == 0 {
			return nil
		}
		return tx.q.RecordDeliveries(ctx, p)
	}
}

// BackOff delays messages that the broker refused, and records the reason. It leaves alone
// those that another deliverer has taken since.
func (tx *Tx) BackOff(ctx context.Context, messages []*Outgoing, reason string, delay time.Duration) error {
	ids, untils := known(messages)
	return tx.q.BackOffWork(ctx, queries.BackOffWorkParams{TaskIds: ids, Untils: untils, Reason: reason, Seconds: delay.Seconds()})
}

// Lease keeps outgoing messages from being sent for some time, by the database's clock, and
// sets their Until; 0 frees them. It leaves alone those that another deliverer has taken since.
func (tx *Tx) Lease(ctx context.Context, messages []*Outgoing, duration time.Duration) error {
	if len(messages) == 0 {
		return nil
	}
	ids, untils := known(messages)
	leased, err := tx.q.LeaseOutgoing(ctx, queries.LeaseOutgoingParams{TaskIds: ids, Untils: untils, Seconds: duration.Seconds()})
	for _, l := range leased {
		messages[l.Place-1].Until = l.NotBefore
	}
	return err
}

// known returns the ids of messages, and what is known of when each may be sent.
func known(messages []*Outgoing) (ids []uuid.UUID, untils []time.Time) {
	for _, m := range messages {
		ids, untils = append(ids, m.TaskID), append(untils, m.Until)
	}
	return ids, untils
}

// AddWork writes work that was claimed, in its order.
func (tx *Tx) AddWork(ctx context.Context, work []Work) error {
	var plain []queries.AddWorkParams
	var kept []queries.AddKeptWorkParams
	for i := range work {
		if w := &work[i]; w.kept() {
			kept = append(kept, w.params())
		} else {
			plain = append(plain, queries.AddWorkParams{
				TaskID: w.TaskID, Queue: w.Queue, TaskName: w.TaskName, Args: w.Args, Kwargs: w.Kwargs, Urgent: w.Urgent, Claimed: w.Claimed,
			})
		}
	}
	if len(plain) > 0 {
		if _, err := tx.q.AddWork(ctx, plain); err != nil {
			return stmt.Failed(err, "write %d messages", len(plain))
		}
	}
	if len(kept) == 0 {
		return nil
	}
	_, err := tx.q.AddKeptWork(ctx, kept)
	return stmt.Failed(err, "write %d messages", len(kept))
}

func (w *Work) params() queries.AddKeptWorkParams {
	p := queries.AddKeptWorkParams{
		TaskID: w.TaskID, State: "outgoing", Queue: w.Queue, Home: &w.Home,
		TaskName: w.TaskName, Args: w.Args, Kwargs: w.Kwargs, Urgent: w.Urgent, Claimed: w.Claimed, Since: &w.Claimed, Hosters: w.Hosters,
	}
	if w.Share.Shared {
		p.ShareGroup, p.Cost, p.Priority = &w.Share.Group, &w.Share.Cost, int16(w.Share.Priority)
	}
	l := &w.Lane
	if l.Set == "" {
		return p
	}
	if l.Backlog {
		p.State, p.Queue = "backlog", w.Home
	}
	p.LaneSet, p.Lane, p.LaneName, p.LanesLeft, p.Retried = &l.Set, new(int16(l.Number)), stmt.Nullable(l.Name), int16(l.Left), l.Retried
	p.SoftLimit, p.HardLimit, p.Below, p.Expected = stmt.Nullable(l.SoftLimit.Seconds()), stmt.Nullable(l.HardLimit.Seconds()), stmt.Nullable(l.Below), stmt.Nullable(l.Expected)
	p.Memory, p.Lister, p.First, p.Behind = &l.Key, &l.Lister, &l.First, &l.Behind
	if l.URL != "" && l.VisitType != "" {
		p.URL, p.VisitType = &l.URL, &l.VisitType
	}
	return p
}

// QueuesWithSent lists the queues with sent work in the ledger, whether or not they are
// still configured.
func (a Queries) QueuesWithSent(ctx context.Context) ([]string, error) {
	names, err := a.q.QueuesWithSent(ctx)
	return names, stmt.Failed(err, "list the queues with work that was sent")
}

// MaintenanceBatch is how many rows of the ledger maintenance deletes at a time.
const MaintenanceBatch = 1000

// GiveUp says which sent work of a queue is given up.
type GiveUp struct {
	Queue   string
	Waiting int // how many messages can still be in the queue
	Now     time.Time

	SilentBefore time.Time // what began and whose limit ended before; what has not begun, is beyond Waiting, and was so at a look before
	BegunBefore  time.Time // what began before, without a limit
	LostBefore   time.Time // all that was sent before
	Most         int       // messages at a time
}

// GiveUpWork gives up sent work of a queue whose end will not be heard, and records which other work is out of its
// queue, to be given up by a later call. Waiting was counted while the queue's lock was held (LockQueues), as it is
// still. Groups are charged the expected cost. It returns the number of messages by lane set, and whether there
// may be more.
func (tx *Tx) GiveUpWork(ctx context.Context, u GiveUp) (givenUp map[string]int, more bool, err error) {
	if err := tx.q.RecordWorkObservation(ctx, queries.RecordWorkObservationParams{Queue: u.Queue, Waiting: int64(u.Waiting), Looked: u.Now}); err != nil {
		return nil, false, stmt.Failed(err, "record which work left queue %q", u.Queue)
	}
	rows, err := tx.q.WorkToGiveUp(ctx, queries.WorkToGiveUpParams{
		Queue: u.Queue, Waiting: int64(u.Waiting), Now: u.Now, UnheardBefore: u.SilentBefore, BegunBefore: u.BegunBefore, LostBefore: u.LostBefore, MaxRows: int32(u.Most),
	})
	if err != nil || len(rows) == 0 {
		return nil, false, stmt.Failed(err, "give up work of queue %q", u.Queue)
	}
	givenUp = make(map[string]int)
	ids := make([]uuid.UUID, len(rows))
	charges, records := make(Charges), make(LaneRecords)
	for i, r := range rows {
		ids[i] = r.TaskID
		if r.ShareGroup != nil {
			charges.Add(r.Home, *r.ShareGroup, *r.Cost, 1, u.Now)
		}
		if r.LaneSet != nil {
			records.Add(*r.LaneSet, *r.LaneName, LaneGivenUp, 0, u.Now, 1)
		}
		givenUp[stmt.OrZero(r.LaneSet)]++
	}
	err = stmt.InOrder(ctx, stmt.Keys(ids, tx.q.DropWork), tx.chargeShares(charges), tx.recordLanes(records))
	return givenUp, len(rows) == u.Most, stmt.Failed(err, "give up work of queue %q", u.Queue)
}

// NoteEmptyQueue records that a queue was seen empty at a moment, or later.
func (a Queries) NoteEmptyQueue(ctx context.Context, queue string, looked time.Time) error {
	return stmt.Failed(a.q.RecordEmptyQueue(ctx, queries.RecordEmptyQueueParams{Queue: queue, Looked: looked}), "record that queue %q is empty", queue)
}

// LeftQueue returns the moment before which all that was sent to a queue had left it when somebody looked, before
// lookedBefore; 1970 if nobody did.
func (a Queries) LeftQueue(ctx context.Context, queue string, lookedBefore time.Time) (time.Time, error) {
	left, err := a.q.LeftQueue(ctx, queries.LeftQueueParams{Queue: queue, LookedBefore: lookedBefore})
	return left, stmt.Failed(err, "read what left queue %q", queue)
}

// ForgetObservations deletes what is known of the looks at queues before a moment, except what says most of each queue, and all
// that is from before uselessBefore.
func (a Queries) ForgetObservations(ctx context.Context, lookedBefore, uselessBefore time.Time) error {
	return stmt.Failed(a.q.ForgetObservations(ctx, queries.ForgetObservationsParams{LookedBefore: lookedBefore, UselessBefore: uselessBefore}), "forget looks at queues")
}

// ForgetDeliveries deletes what is known of deliveries before a moment. It must be a
// minute ago or more: younger ones are counted.
func (a Queries) ForgetDeliveries(ctx context.Context, before time.Time) error {
	return stmt.Failed(a.q.ForgetDeliveries(ctx, before), "forget old deliveries")
}

// ForgetSettled deletes settled work that ended before a moment, in batches. After a
// time-out the next call begins with half as many.
func (s Store) ForgetSettled(ctx context.Context, before time.Time) error {
	for {
		most := s.sizes.settled.Of(MaintenanceBatch)
		n, err := s.q.ForgetSettled(ctx, queries.ForgetSettledParams{Before: &before, MaxRows: int32(most)})
		s.sizes.settled.Note(most, err)
		if err != nil || n < int64(most) {
			return stmt.Failed(err, "forget work that has ended")
		}
	}
}

// Backoff says why a run's message was postponed.
type Backoff struct {
	Attempts int32  // how often the broker refused it
	Reason   string // the last time
	Again    time.Time
}

// Backoffs finds the postponed messages of these runs, by the runs' numbers.
func (a Queries) Backoffs(ctx context.Context, runs []model.TaskRun) (map[int64]Backoff, error) {
	byID := make(map[string]int64, len(runs))
	var ids []uuid.UUID
	for _, r := range runs {
		if id, ok := model.ParseTaskID(stmt.OrZero(r.BackendID)); ok { // otherwise not one of ours
			ids = append(ids, id)
			byID[id.String()] = r.ID
		}
	}
	rows, err := a.q.Backoffs(ctx, ids)
	backoffs := make(map[int64]Backoff, len(rows))
	for _, row := range rows {
		backoffs[byID[row.BackendID]] = Backoff{Attempts: row.Attempts, Reason: row.Reason, Again: row.NotBefore}
	}
	return backoffs, stmt.Failed(err, "find messages backed off")
}
