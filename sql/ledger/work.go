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

// DeliveriesKept is how long confirmed deliveries are stored. It is well above the age of the broker's
// statistics.
const DeliveriesKept = 5 * time.Minute

// Work is a row of the ledger: one message, from its claim until no event of it can follow.
// docs/explanation/architecture.md has its states. A claim creates it. A zero value stands for none.
type Work struct {
	TaskID   uuid.UUID     // Celery's task id
	RootID   uuid.NullUUID // Celery's task id of the first try; null if this is it
	Queue    string        // routing key; "" in a backlog
	Home     string        // the queue of the claim
	TaskName string
	Args     json.RawMessage
	Kwargs   json.RawMessage
	Urgent   bool      // sent before messages that are not urgent
	Claimed  time.Time // by the database's clock

	Share   Share
	Lane    WorkLane
	Hosters []string // the hosters whose limits count it
	// Origin is that of a visit that counts for hosters; it is not stored for other work.
	Origin model.OriginKey

	Tried    bool    // the task's last run failed; not stored
	Updated  float64 // origins.GrabbedVisit.Updated; not stored
	Attempts int32   // refusals by the broker; not written by AddWork
}

// Share is a message's group and expected cost. Its zero value is no group.
type Share struct {
	Shared bool
	Group  string
	Cost   float64 // seconds

	// Priority is the message's priority in a queue with x-max-priority.
	Priority uint8
}

// WorkLane is a message's lane. Its zero value is no lane.
type WorkLane struct {
	Set     string // the lane set's key in the configuration; "" without lanes
	Number  int    // in the set, from 0
	Backlog bool   // it waits for a slot of the lane
	Name    string // the lane's name; "" in a backlog
	Left    int    // the number of lanes after it
	Retried bool   // a time-out on the last lane is retried like other failures

	// SoftLimit and HardLimit count from the start of the task. At SoftLimit the worker raises
	// SoftTimeLimitExceeded in it, at HardLimit the worker kills it. 0: the worker's own limit.
	SoftLimit, HardLimit time.Duration

	Expected  float64 // predicted runtime in seconds; 0 if unknown
	Below     float64 // soft limit in seconds of the lane that it is predicted to exceed; 0 for none
	VisitType string  // of the visited origin
	URL       string
	LaneFeatures
}

// kept reports whether the row stays until the work's end is known.
func (w *Work) kept() bool { return w.Share.Shared || w.Lane.Set != "" || len(w.Hosters) > 0 }

// LockQueues takes the advisory locks of queues until the transaction ends. Every claim for a queue takes
// its lock, so free slots stay free until the claim commits. LockQueues returns a *postgres.ClockError on a
// host with a wrong clock.
func (tx *Tx) LockQueues(ctx context.Context, queues ...string) error {
	began := time.Now()
	locks, err := tx.q.LockQueues(ctx, slices.Compact(slices.Sorted(slices.Values(queues))))
	if err != nil {
		return err
	}
	last := locks[len(locks)-1]
	return tx.RecordTime(last.Asked, last.Locked, time.Since(began))
}

// QueueLedger is the ledger's state of a queue.
type QueueLedger struct {
	Outgoing int // messages
	Before   int // messages that the broker confirmed from QueueObserved.Since until QueueObserved.Asked
	After    int // messages that the broker confirmed from QueueObserved.Asked on
}

// QueueObserved has the times of a queue's observation, by the database's clock.
type QueueObserved struct {
	Name  string
	Since time.Time // the earliest moment of the broker's statistics; less than DeliveriesKept ago
	Asked time.Time // before the question to the broker, and not before Since
}

// QueueLedgers returns the ledger's state of the queues, in their order. It reads all in one statement: a
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

// SentMessages counts a queue's sent work without a known end. The ledger has only work of groups, lanes
// and hosters until then.
func (a Queries) SentMessages(ctx context.Context, queue string) (int, error) {
	n, err := a.q.SentMessages(ctx, queue)
	return int(n), err
}

// OutgoingDue counts the outgoing messages due by the database's clock: the urgent ones, or the others. It
// leaves out queues that are backed off.
func (a Queries) OutgoingDue(ctx context.Context, urgent bool) (int, error) {
	n, err := a.q.OutgoingDue(ctx, urgent)
	return int(n), err
}

// lowWaterStep is the number of places that work, or changes of candidates or graphs, get between two
// raises of the low-water marks. It bounds the dead index entries that a scan passes, together with those
// of two calls of RaiseLowWater.
const lowWaterStep = 5000

// RaiseLowWater raises the places below which no work is outgoing and no change of candidates or graphs is
// pending. Scans begin there, and so skip dead rows, which stay as long as the database's oldest snapshot.
// RaiseLowWater writes rarely even if called often: versions of its own row stay, too.
func (a Queries) RaiseLowWater(ctx context.Context) error {
	return stmt.Failed(a.q.RaiseLowWater(ctx, lowWaterStep), "raise the low-water marks")
}

// LowerLowWater lowers the marks if outgoing work or a pending change is below, and reports whether there
// was any. The cause is a bug or a row written by hand. It scans all dead rows.
func (a Queries) LowerLowWater(ctx context.Context) (bool, error) {
	n, err := a.q.LowerLowWater(ctx)
	return n > 0, stmt.Failed(err, "find rows below the low-water marks")
}

// Outgoing is a message that a deliverer has locked.
type Outgoing struct {
	Work
	StaysInLedger bool // the row stays in the ledger after the broker's confirmation

	// Until is the time of the read, or the end of the lease. A deliverer that takes the message later sets
	// a later time in its row.
	Until time.Time
}

// NextOutgoing locks up to limit messages, urgent ones or the others, the oldest first. The messages are
// due by the database's clock, no other transaction holds them, their queue is not in skip and they are not
// in skipRows. The transaction must be begun by db.Store.ByPlace (postgres.ByPlace).
func (tx *Tx) NextOutgoing(ctx context.Context, urgent bool, limit int, skip []string, skipRows []uuid.UUID) ([]Outgoing, error) {
	rows, err := tx.q.NextOutgoing(ctx, queries.NextOutgoingParams{Urgent: urgent, Skip: skip, SkipRows: skipRows, MaxRows: int32(limit)})
	return stmt.List(rows, err, func(r queries.NextOutgoingRow) Outgoing {
		return Outgoing{StaysInLedger: r.Kept, Until: r.Until, Work: Work{
			TaskID: r.TaskID, RootID: r.RootID, Queue: r.Queue, Home: stmt.OrZero(r.Home), Share: Share{Priority: uint8(r.Priority)}, TaskName: r.TaskName, Args: r.Args, Kwargs: r.Kwargs,
			Claimed: r.Claimed, Attempts: r.Attempts,
			Lane: WorkLane{SoftLimit: model.Duration(stmt.OrZero(r.SoftLimit)), HardLimit: model.Duration(stmt.OrZero(r.HardLimit))},
		}}
	})
}

// LowestOverduePriorities returns, by queue, the lowest priority of the home queues' group work that no worker had begun
// within ageing after it was sent. It considers the time up to which starts are known (EndsKnown).
func (tx *Tx) LowestOverduePriorities(ctx context.Context, homes []string, now time.Time, ageing time.Duration) (map[string]uint8, error) {
	rows, err := tx.q.LowestOverduePriorities(ctx, queries.LowestOverduePrioritiesParams{Homes: homes, Now: now, Ageing: ageing.Seconds()})
	lowest := make(map[string]uint8, len(rows))
	for _, r := range rows {
		lowest[r.Queue] = uint8(r.Priority)
	}
	return lowest, stmt.Failed(err, "read the lowest priority of overdue work")
}

// Confirm records the broker's confirmations: messages that stay become sent, the others leave the ledger.
// Messages without a row count as delivered, too.
func (tx *Tx) Confirm(ctx context.Context, confirmed []Outgoing) error {
	if len(confirmed) == 0 {
		return nil
	}
	var kept, gone []uuid.UUID
	perQueue := make(map[string]int32)
	for _, m := range confirmed {
		perQueue[m.Queue]++
		if m.StaysInLedger {
			kept = append(kept, m.TaskID)
		} else {
			gone = append(gone, m.TaskID)
		}
	}
	return stmt.InOrder(ctx, stmt.Keys(gone, tx.q.DropWork), stmt.Keys(kept, tx.q.MarkSent), tx.recordDeliveries(perQueue))
}

// recordDeliveries returns the step that records the number of delivered messages by queue.
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

// BackOff delays messages that the broker refused, and records the reason. It skips messages that another
// deliverer has taken since.
func (tx *Tx) BackOff(ctx context.Context, messages []*Outgoing, reason string, delay time.Duration) error {
	ids, untils := idsAndUntils(messages)
	return tx.q.BackOffWork(ctx, queries.BackOffWorkParams{TaskIds: ids, Untils: untils, Reason: reason, Seconds: delay.Seconds()})
}

// Lease keeps outgoing messages from being sent for a duration by the database's clock, and sets their
// Until. 0 ends the lease. It skips messages that another deliverer has taken since.
func (tx *Tx) Lease(ctx context.Context, messages []*Outgoing, duration time.Duration) error {
	if len(messages) == 0 {
		return nil
	}
	ids, untils := idsAndUntils(messages)
	leased, err := tx.q.LeaseOutgoing(ctx, queries.LeaseOutgoingParams{TaskIds: ids, Untils: untils, Seconds: duration.Seconds()})
	for _, l := range leased {
		messages[l.Place-1].Until = l.NotBefore
	}
	return err
}

// idsAndUntils returns the messages' ids and Untils.
func idsAndUntils(messages []*Outgoing) (ids []uuid.UUID, untils []time.Time) {
	for _, m := range messages {
		ids, untils = append(ids, m.TaskID), append(untils, m.Until)
	}
	return ids, untils
}

// AddWork writes the work of claims, in its order.
func (tx *Tx) AddWork(ctx context.Context, claims ...[]Work) error {
	var plain []queries.AddWorkParams
	var kept []queries.AddKeptWorkParams
	for _, work := range claims {
		for i := range work {
			if w := &work[i]; w.kept() {
				kept = append(kept, w.params())
			} else {
				plain = append(plain, queries.AddWorkParams{
					TaskID: w.TaskID, Queue: w.Queue, TaskName: w.TaskName, Args: w.Args, Kwargs: w.Kwargs, Urgent: w.Urgent, Claimed: w.Claimed,
				})
			}
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
	if len(w.Hosters) > 0 && w.Origin != (model.OriginKey{}) {
		p.URL, p.VisitType = &w.Origin.URL, &w.Origin.VisitType
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

// QueuesWithSent lists the queues with sent work in the ledger, configured or not.
func (a Queries) QueuesWithSent(ctx context.Context) ([]string, error) {
	names, err := a.q.QueuesWithSent(ctx)
	return names, stmt.Failed(err, "list the queues with work that was sent")
}

// MaintenanceBatch is the number of rows of the ledger that maintenance deletes at a time.
const MaintenanceBatch = 1000

// GiveUpFilter selects the sent work of a queue to give up.
type GiveUpFilter struct {
	Queue   string
	Waiting int // the most messages that can still be in the queue
	Now     time.Time

	// SilentBefore gives up started work whose time limit ended before it. It also gives up work without a start that
	// is out of the queue now (beyond Waiting), and was at an observation before it.
	SilentBefore time.Time
	BegunBefore  time.Time // started work without a limit: its latest start
	LostBefore   time.Time // all work sent before
	Limit        int       // the most messages at a time
}

// GiveUpWork gives up sent work of a queue that gets no end event. It also records which work has left the
// queue; later calls may give up that work. The caller holds the queue's lock (LockQueues) since it counted
// Waiting. Groups are charged the expected cost. GiveUpWork returns the number of messages by lane set, and
// whether more may be left.
func (tx *Tx) GiveUpWork(ctx context.Context, u GiveUpFilter) (givenUp map[string]int, more bool, err error) {
	if err := tx.q.RecordWorkObservation(ctx, queries.RecordWorkObservationParams{Queue: u.Queue, Waiting: int64(u.Waiting), Looked: u.Now}); err != nil {
		return nil, false, stmt.Failed(err, "record which work left queue %q", u.Queue)
	}
	rows, err := tx.q.WorkToGiveUp(ctx, queries.WorkToGiveUpParams{
		Queue: u.Queue, Waiting: int64(u.Waiting), Now: u.Now, SilentBefore: u.SilentBefore, BegunBefore: u.BegunBefore, LostBefore: u.LostBefore, MaxRows: int32(u.Limit),
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
	return givenUp, len(rows) == u.Limit, stmt.Failed(err, "give up work of queue %q", u.Queue)
}

// NoteEmptyQueue records that a queue was observed empty at looked or later.
func (a Queries) NoteEmptyQueue(ctx context.Context, queue string, looked time.Time) error {
	return stmt.Failed(a.q.RecordEmptyQueue(ctx, queries.RecordEmptyQueueParams{Queue: queue, Looked: looked}), "record that queue %q is empty", queue)
}

// LeftQueueBefore returns the latest moment before which all sent messages had left the queue, by observations
// made before lookedBefore. It returns 1970 without observations.
func (a Queries) LeftQueueBefore(ctx context.Context, queue string, lookedBefore time.Time) (time.Time, error) {
	left, err := a.q.LeftQueueBefore(ctx, queries.LeftQueueBeforeParams{Queue: queue, LookedBefore: lookedBefore})
	return left, stmt.Failed(err, "read what left queue %q", queue)
}

// ForgetObservations deletes a queue's observations from before lookedBefore, except the one that covers
// most. It deletes all from before uselessBefore.
func (a Queries) ForgetObservations(ctx context.Context, lookedBefore, uselessBefore time.Time) error {
	return stmt.Failed(a.q.ForgetObservations(ctx, queries.ForgetObservationsParams{LookedBefore: lookedBefore, UselessBefore: uselessBefore}), "delete old observations of queues")
}

// ForgetDeliveries deletes deliveries before a moment. The moment must be at least a minute ago: younger
// deliveries count.
func (a Queries) ForgetDeliveries(ctx context.Context, before time.Time) error {
	return stmt.Failed(a.q.ForgetDeliveries(ctx, before), "forget old deliveries")
}

// ForgetSettled deletes settled work that ended before a moment, in batches. After a time-out, the next
// call begins with half the batch size.
func (s Store) ForgetSettled(ctx context.Context, before time.Time) error {
	for {
		most := s.sizes.settled.Of(MaintenanceBatch)
		n, err := s.q.ForgetSettled(ctx, queries.ForgetSettledParams{Before: &before, MaxRows: int32(most)})
		s.sizes.settled.Adjust(most, err)
		if err != nil || n < int64(most) {
			return stmt.Failed(err, "forget work that has ended")
		}
	}
}

// Backoff is the delay of a run's message.
type Backoff struct {
	Attempts int32  // refusals by the broker
	Reason   string // of the last refusal
	NextTry  time.Time
}

// Backoffs returns the delays of the runs' messages, by run id.
func (a Queries) Backoffs(ctx context.Context, runs []model.TaskRun) (map[int64]Backoff, error) {
	byID := make(map[string]int64, len(runs))
	var ids []uuid.UUID
	for _, r := range runs {
		if id, ok := model.ParseTaskID(stmt.OrZero(r.BackendID)); ok { // otherwise not an id of this program
			ids = append(ids, id)
			byID[id.String()] = r.ID
		}
	}
	rows, err := a.q.Backoffs(ctx, ids)
	backoffs := make(map[int64]Backoff, len(rows))
	for _, row := range rows {
		backoffs[byID[row.BackendID]] = Backoff{Attempts: row.Attempts, Reason: row.Reason, NextTry: row.NotBefore}
	}
	return backoffs, stmt.Failed(err, "find messages backed off")
}
