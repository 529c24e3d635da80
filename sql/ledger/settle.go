package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// Subjects are the runs and the work that a batch of events concerns.
type Subjects struct {
	BackendIDs []string    // Celery task ids of runs
	TaskIDs    []uuid.UUID // started or ended work that may be in the ledger
}

// LockedRun is a locked row of task_run that events concern.
type LockedRun struct {
	ID, Task  int64
	BackendID string
	TaskType  string
	Scheduled time.Time
	Status    model.RunStatus
	HasError  bool        // its metadata has an error text
	Newest    *StartEvent // the newest recorded start
}

// Open reports whether the run has not ended.
func (r LockedRun) Open() bool {
	return r.Status == model.RunScheduled || r.Status == model.RunStarted
}

// StartEvent orders the starts of a run: Celery starts a run again at a retry.
type StartEvent struct {
	EventTime float64 // the worker's clock, seconds since 1970 UTC
	Worker    string  // breaks ties
}

// LockedWork is a locked row of the ledger that events concern, outgoing, sent or settled.
type LockedWork struct {
	TaskID   uuid.UUID
	Settled  bool
	Home     string
	TaskType string // "" without a task type of its task's name
	Claimed  time.Time
	Started  *float64 // worker's clock, seconds since 1970 UTC; nil if no start is recorded
	TimedOut int      // the number of lanes on which it timed out
	Share    Share    // for settled work, Cost is the charge of the group
	Lane     WorkLane
	Hosters  []string        // whose limits count it
	Origin   model.OriginKey // of a visit that counts for hosters; zero if unknown
}

// Settlement is the changes of a batch of events to the database.
type Settlement struct {
	Locked func() // called once the tasks, too, are locked; nil for none

	StartEvents []StartEventOf
	Begun       []RunBegin    // open runs that started
	LateStarts  []RunBegin    // of runs that had ended
	Ended       [][]RunEnding // open runs, in waves: at most one run of a task in each
	Errors      []RunError    // for failed runs without an error text
	Revoked     []RunRevoked  // runs that had failed before
	Durations   []RunDuration
	Requeued    []RunRequeue // open runs that continue under another task id

	WorkBegun    []WorkBegin
	WorkGone     []uuid.UUID
	WorkSettled  []WorkSettle
	WorkRequeued []WorkRequeue
	TimedOut     []VisitTimeout // visits among WorkRequeued
	Hosters      HosterEnds     // of visits that ended for good

	Ends     Ends      // of known types
	Failures []Failure // of known types
	Charges  Charges
	Records  LaneRecords
	Memories map[int64]WorkMemory
	Counts   map[SketchCount]float64
	LastEnd  time.Time     // the arrival of the last end in Counts
	HalfLife time.Duration // of the counts
}

// These are changes of one run or one message. Metadata is merged into the run's.
type (
	StartEventOf struct {
		Run   int64
		Start StartEvent
	}
	RunBegin struct {
		Run      int64
		At       time.Time
		Metadata RunMetadata
	}
	RunEnding struct {
		Run, Task int64
		Started   *time.Time // nil: unchanged
		At        time.Time
		Status    model.RunStatus
		Metadata  RunMetadata
		Final     bool // the task isn't retried before its next regular run
	}
	RunRevoked struct {
		Run, Task int64
		Reason    string
	}
	RunError struct {
		Run   int64
		Error string
	}
	RunDuration struct {
		Run      int64
		Seconds  float64
		Received time.Time
	}
	RunRequeue struct {
		Run      int64
		NewID    uuid.UUID
		LaneName string
	}
	WorkBegin struct {
		TaskID  uuid.UUID
		Started float64
	}
	WorkSettle struct {
		TaskID        uuid.UUID
		Received      time.Time
		Started       float64  // 0 if unknown
		Charged       *float64 // not nil if the charge of the group will be corrected
		AwaitsRuntime bool     // its runtime is still unknown, and lanes will learn from it
		AwaitsResult  bool     // its result is still unknown, and its hosters back off
	}
	WorkRequeue struct {
		TaskID, NewID uuid.UUID
		Received      time.Time
	}
	VisitTimeout struct {
		URL, VisitType string
		Claimed        time.Time
		TimedOut       float64 // the worker's clock, seconds since 1970 UTC
		Received       time.Time
	}
	WorkMemory struct {
		Seconds, Behind float64
		AtLeast         bool
		Received        time.Time
	}
	SketchCount struct {
		Set string
		SketchKey
		Bucket int16
	}
)

// RunMetadata is the addition of a start and an end to a run's metadata. A start without a worker's name
// writes null, as in the Python scheduler.
type RunMetadata struct {
	Starts bool
	Worker *string // of the start's event
	Error  *string // of the end's event; nil for none

	NotRetried string // the reason why the task isn't retried before its next regular run; "" for none
}

// String returns the JSON object.
func (m RunMetadata) String() string {
	object := make(map[string]*string, 3)
	if m.Starts {
		object["worker"] = m.Worker
	}
	if m.Error != nil {
		object["error"] = m.Error
	}
	if m.NotRetried != "" {
		object["not_retried"] = &m.NotRetried
	}
	text, _ := json.Marshal(object) // strings and nulls always marshal
	return string(text)
}

// Settle locks and reads the runs and the work that a batch of events concerns, calls decide, and writes
// decide's settlement, all in one transaction. decide doesn't get unknown runs and work. Settle retries the
// transaction after a deadlock, so it may call decide several times.
//
// Settle takes locks in this order: runs by id, work by task id, tasks by id. Deliveries are only inserted. The counts of
// what ended come after these, then hosters that refuse visits, by name. So two listeners never deadlock, and neither do a listener and the
// Python one, which locks one run and then its task.
//
// It returns a *postgres.RefusedError if PostgreSQL refuses a value.
func (s Store) Settle(ctx context.Context, subjects Subjects, decide func([]LockedRun, []LockedWork) Settlement) error {
	return postgres.AsRefused(postgres.RetryLostRaces(func() error {
		// ByKey would make the trigger at the end of each run plan its statements each time.
		return s.inTx(ctx, postgres.ByIndex, func(ctx context.Context, tx *Tx) error {
			runs, err := tx.lockRuns(ctx, subjects)
			if err != nil {
				return err
			}
			var rows []queries.LockWorkRow
			if len(subjects.TaskIDs) > 0 {
				if rows, err = tx.q.LockWork(ctx, subjects.TaskIDs); err != nil {
					return err
				}
			}
			work, _ := stmt.List(rows, nil, lockedWorkOf)
			settlement := decide(runs, work)
			loads, err := tx.loadsOfHosters(ctx, settlement.Hosters, s.db.Now())
			if err != nil {
				return err
			}
			return stmt.InOrder(ctx, tx.recordDeliveries(settlement.delivered(rows)), func(ctx context.Context) error { return tx.writeSettlement(ctx, settlement) },
				tx.learnRefusals(settlement.Hosters, loads))
		})
	}))
}

// delivered returns, by queue, the number of ended messages that were outgoing until now. The broker had
// them, though its confirmations are not recorded yet. Workers that acknowledge late may still hold them.
func (s Settlement) delivered(rows []queries.LockWorkRow) map[string]int32 {
	outgoing := make(map[uuid.UUID]string)
	for _, r := range rows {
		if r.State == "outgoing" {
			outgoing[r.TaskID] = r.Queue
		}
	}
	if len(outgoing) == 0 {
		return nil
	}
	perQueue := make(map[string]int32)
	end := func(id uuid.UUID) {
		if queue, ok := outgoing[id]; ok {
			perQueue[queue]++
		}
	}
	for _, id := range s.WorkGone {
		end(id)
	}
	for _, w := range s.WorkSettled {
		end(w.TaskID)
	}
	for _, w := range s.WorkRequeued {
		end(w.TaskID)
	}
	return perQueue
}

func (tx *Tx) lockRuns(ctx context.Context, subjects Subjects) ([]LockedRun, error) {
	rows, err := tx.q.LockRuns(ctx, subjects.BackendIDs)
	runs, err := stmt.List(rows, err, func(r queries.LockRunsRow) LockedRun {
		// The run was found by its backend id, so that is not null.
		return LockedRun{
			ID: r.ID, Task: r.Task, BackendID: *r.BackendID, TaskType: r.Type, Scheduled: r.Scheduled, Status: r.Status, HasError: r.HasError,
		}
	})
	if len(runs) == 0 {
		return runs, err
	}
	byID := make(map[int64]*LockedRun, len(runs))
	for i := range runs {
		byID[runs[i].ID] = &runs[i]
	}
	// This read follows the locks: another listener may have written starts before it released them.
	starts, err := tx.q.NewestStarts(ctx, slices.Collect(maps.Keys(byID)))
	for _, s := range starts {
		byID[s.Run].Newest = &StartEvent{EventTime: s.EventTime, Worker: s.Worker}
	}
	return runs, err
}

func lockedWorkOf(r queries.LockWorkRow) LockedWork {
	w := LockedWork{
		TaskID: r.TaskID, Settled: r.State == "settled", Home: r.Queue, TaskType: r.TaskType, Claimed: r.Claimed, Started: r.Started, TimedOut: int(r.TimedOut),
	}
	if r.Home != nil {
		w.Home = *r.Home
	}
	if w.Hosters = r.Hosters; r.URL != nil && r.VisitType != nil {
		w.Origin = model.OriginKey{URL: *r.URL, VisitType: *r.VisitType}
	}
	if r.ShareGroup != nil {
		w.Share = Share{Shared: true, Group: *r.ShareGroup, Cost: *r.Cost}
	}
	if r.LaneSet != nil {
		w.Lane = WorkLane{
			Set: *r.LaneSet, Number: int(*r.Lane), Name: stmt.OrZero(r.LaneName), Left: int(r.LanesLeft), Retried: r.Retried, SoftLimit: model.Duration(stmt.OrZero(r.SoftLimit)),
			Below: stmt.OrZero(r.Below), URL: stmt.OrZero(r.URL), VisitType: stmt.OrZero(r.VisitType),
			LaneFeatures: LaneFeatures{Key: *r.Memory, Lister: *r.Lister, First: *r.First, Behind: *r.Behind},
		}
	}
	return w
}

// writeSettlement runs one statement for each kind of change in s.
func (tx *Tx) writeSettlement(ctx context.Context, s Settlement) error {
	var tasks []int64
	for _, wave := range s.Ended {
		for _, r := range wave {
			tasks = append(tasks, r.Task)
		}
	}
	for _, r := range s.Revoked {
		tasks = append(tasks, r.Task)
	}
	locked := func(context.Context) error {
		if s.Locked != nil {
			s.Locked()
		}
		return nil
	}
	return stmt.InOrder(ctx, slices.Concat([]stmt.Step{stmt.Keys(tasks, tx.q.LockTasks), locked, stmt.Arrays(s.Failures, tx.q.RecordFailures)}, tx.settleWork(s), tx.learn(s), tx.settleRuns(s), []stmt.Step{tx.countEnded(s.Ends)})...)
}

// settleRuns returns the steps that write changes of runs.
func (tx *Tx) settleRuns(s Settlement) []stmt.Step {
	steps := []stmt.Step{stmt.Arrays(s.StartEvents, tx.q.RecordStarts), stmt.Arrays(s.Begun, tx.q.StartRuns), stmt.Arrays(s.LateStarts, tx.q.FillStarts)}
	// Runs of one task end in separate statements: each end moves the task on from the state after the one
	// before. Within a statement PostgreSQL chooses the order.
	for _, wave := range s.Ended {
		var final, ignored, disabled []int64
		for _, r := range wave {
			if r.Final {
				final = append(final, r.Task)
			}
			if r.Metadata.NotRetried != "" {
				ignored = append(ignored, r.Task)
			}
		}
		// The Python scheduler ignores events of revocations and rejections, so a disabled task stays
		// disabled there. Its trigger on ends would enable a recurring task.
		steps = append(steps,
			stmt.Keys(final, tx.q.ForfeitRetries),
			stmt.Keys(ignored, func(ctx context.Context, tasks []int64) (err error) {
				disabled, err = tx.q.DisabledTasks(ctx, tasks)
				return err
			}),
			stmt.Arrays(wave, tx.q.EndRuns),
			func(ctx context.Context) error { return stmt.Keys(disabled, tx.q.DisableTasks)(ctx) },
		)
	}
	return append(steps, stmt.Arrays(s.Errors, tx.q.FillErrors), stmt.Arrays(s.Revoked, tx.q.RevokeRetries), stmt.Arrays(s.Requeued, tx.q.MoveRuns), stmt.Arrays(s.Durations, tx.q.RecordDurations))
}

// settleWork returns the steps that write changes of work. They notify the senders of requeued work.
func (tx *Tx) settleWork(s Settlement) []stmt.Step {
	var requeued []uuid.UUID
	for _, w := range s.WorkRequeued {
		requeued = append(requeued, w.TaskID)
	}
	notify := func(ctx context.Context, _ []uuid.UUID) error {
		_, err := tx.Raw.Exec(ctx, "notify scheduler_go_lanes")
		return err
	}
	type settled struct {
		WorkSettle
		Charges bool
	}
	var rows []settled
	for _, w := range s.WorkSettled {
		rows = append(rows, settled{w, w.Charged != nil})
	}
	return []stmt.Step{
		stmt.Arrays(s.WorkBegun, tx.q.StartWork),
		stmt.Keys(s.WorkGone, tx.q.DropWork),
		stmt.Arrays(rows, tx.q.SettleWork),
		stmt.Arrays(s.WorkRequeued, tx.q.RequeueWork),
		stmt.Arrays(s.TimedOut, tx.q.RecordTimeouts),
		stmt.Keys(requeued, tx.q.ForgetHeldVisits), // their failed visits were time-outs
		stmt.Keys(requeued, notify),
		tx.chargeShares(s.Charges),
	}
}

// learn returns the steps that record runtimes for lanes.
func (tx *Tx) learn(s Settlement) []stmt.Step {
	count := func(ctx context.Context, p queries.CountWorkParams) error {
		p.Now, p.HalfLife = s.LastEnd, s.HalfLife.Seconds()
		return tx.q.CountWork(ctx, p)
	}
	return []stmt.Step{
		stmt.Arrays(stmt.Entries(s.Memories), tx.q.RememberWork),
		stmt.Arrays(stmt.Entries(s.Counts), count),
		tx.recordLanes(s.Records),
	}
}
