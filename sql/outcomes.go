package sql

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// rejectedEventsKept bounds the table of rejected events.
const rejectedEventsKept = 5000

// Outcome is what one event tells about a run. Exactly one of Start, End and
// Runtime is set.
type Outcome struct {
	BackendID string    // Celery's id of the task, as in task_run.backend_id
	Heard     time.Time // when the listener got the event; what the run's times are set to
	Start     *RunStart
	End       *RunEnd
	Runtime   *time.Duration // how long a successful run took
}

// RunStart says that a worker has begun a run.
type RunStart struct {
	Worker *string // nil where the event names none
	// EventTime is the worker's clock, in seconds since 1970 UTC. It only puts
	// several starts of one run in order (Celery starts a run again when it
	// retries it).
	EventTime float64
}

// before orders the starts of a run.
func (s RunStart) before(o RunStart) bool {
	return cmp.Or(cmp.Compare(s.EventTime, o.EventTime), cmp.Compare(s.workerName(), o.workerName())) < 0
}

func (s RunStart) workerName() string {
	if s.Worker == nil {
		return ""
	}
	return *s.Worker
}

// RunEnd says how a run ended.
type RunEnd struct {
	Status scheduler.RunStatus
	Error  *string // goes into the run's metadata; nil for none
	// TimedOut says that a time limit ended the run; Status is failed then.
	TimedOut bool
	// EventTime is the worker's clock, in seconds since 1970 UTC, or 0 if it is
	// not known.
	EventTime float64
}

// RejectedEvent is an event that was set aside.
type RejectedEvent struct {
	BackendID string
	Received  time.Time
	Event     string // for an operator to read
	SQLState  string // of PostgreSQL's refusal, or empty
	Reason    string
}

// RefusedError says that PostgreSQL refused what was to be written, and would
// again: something in the data does not fit the tables, their constraints or
// the functions that their triggers call.
type RefusedError struct {
	SQLState string
	err      error
}

func (e *RefusedError) Error() string { return "refused by PostgreSQL: " + e.err.Error() }
func (e *RefusedError) Unwrap() error { return e.err }

// refused wraps err in a RefusedError if it is about the data. Everything else
// (connections, resources, locks, privileges, a missing table) is about the
// state of the service, and waiting or an operator can cure it.
func refused(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || len(pgErr.Code) != 5 {
		return err
	}
	switch pgErr.Code[:2] {
	case "20", // case not found
		"21", // cardinality
		"22", // data: division by zero, out of range, characters
		"23", // constraints
		"27", // trigger
		"44", // check option of a view
		"54", // program limits
		"P0": // raised by a function
		return &RefusedError{SQLState: pgErr.Code, err: err}
	}
	return err
}

// ApplyOutcomes writes outcomes in one transaction, all or none, in the order
// given; the first end of a run is the one that counts. Outcomes of runs that
// are not in task_run are ignored. Applying an outcome again changes nothing,
// in the same call or a later one, so a caller that doesn't know whether the
// transaction was committed applies it again.
//
// The rules for an open run (scheduled or started) are those of the peer's
// swh_scheduler_start_task_run and swh_scheduler_end_task_run. For a run that
// has ended they make up for the order the events came in: a start fills in
// what it tells (never an end before a start), a second end adds the error text
// of a failure that had none, and neither touches the run's status or its task.
//
// It returns a *RefusedError if PostgreSQL refuses one of them.
func (s *Store) ApplyOutcomes(ctx context.Context, outcomes []Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	var err error
	for range lockTries {
		err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error { return tx.applyOutcomes(ctx, outcomes) })
		if !lostLockRace(err) {
			break
		}
	}
	if err != nil {
		return refused(fmt.Errorf("apply %d outcomes: %w", len(outcomes), err))
	}
	return nil
}

// lockTries is how often a batch that lost a race for locks is tried.
const lockTries = 5

// lostLockRace says that PostgreSQL ended the transaction in favour of another,
// such as one of the peer's runner, which locks tasks in no fixed order.
func lostLockRace(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "40P01" || pgErr.Code == "40001")
}

// RejectEvents keeps events that cannot be applied where an operator can read
// them, the newest few thousand. Events of runs that are not in task_run are
// ignored. It returns a *RefusedError if PostgreSQL refuses one of them.
func (s *Store) RejectEvents(ctx context.Context, events []RejectedEvent) error {
	if len(events) == 0 {
		return nil
	}
	var p queries.RejectEventsParams
	for _, e := range events {
		p.Received = append(p.Received, e.Received)
		p.BackendIds = append(p.BackendIds, e.BackendID)
		p.Events = append(p.Events, e.Event)
		p.Sqlstates = append(p.Sqlstates, e.SQLState)
		p.Reasons = append(p.Reasons, e.Reason)
	}
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.RejectEvents(ctx, p); err != nil {
			return err
		}
		return tx.q.ForgetRejectedEvents(ctx, rejectedEventsKept)
	})
	if err != nil {
		return refused(fmt.Errorf("keep %d rejected events: %w", len(events), err))
	}
	return nil
}

// ForgetRuns deletes what was noted about runs first heard of before a moment:
// their starts (no event of theirs can still come) and their durations.
func (s *Store) ForgetRuns(ctx context.Context, startsBefore, durationsBefore time.Time) error {
	if _, err := s.q.ForgetStarts(ctx, startsBefore); err != nil {
		return fmt.Errorf("forget old starts of runs: %w", err)
	}
	if _, err := s.q.ForgetDurations(ctx, durationsBefore); err != nil {
		return fmt.Errorf("forget old durations of runs: %w", err)
	}
	return nil
}

// runUpdate is all that a batch tells about one row of task_run.
type runUpdate struct {
	queries.LockRunsRow
	told *told
}

// told is all that a batch tells about one backend id.
type told struct {
	start        *Outcome // the newest
	end          *Outcome // the first
	endPlace     int      // of end in the batch
	lateError    *string  // of a failure after the first end
	runtime      *time.Duration
	runtimeHeard time.Time

	// goesOn, if set, is the id under which the work goes on in another lane: what
	// end tells is then not the end of it.
	goesOn uuid.UUID
	// undecided says that there is a runtime and no end yet, and that it was so long
	// that the result may be a time-out: the work of a lane ends with the result.
	undecided bool
}

// ofRun is what is told about a run, which doesn't end if its work goes on.
func (t *told) ofRun() *told {
	if t.goesOn == uuid.Nil {
		return t
	}
	return &told{start: t.start}
}

// timedOut is a copy of an end that says so.
func (o Outcome) timedOut() *Outcome {
	end := *o.End
	end.TimedOut = true
	o.End = &end
	return &o
}

// gather reduces outcomes to one record a backend id.
func gather(outcomes []Outcome) map[string]*told {
	byID := make(map[string]*told)
	for i := range outcomes {
		o := &outcomes[i]
		t := byID[o.BackendID]
		if t == nil {
			t = &told{}
			byID[o.BackendID] = t
		}
		switch {
		case o.Start != nil:
			if t.start == nil || t.start.Start.before(*o.Start) {
				t.start = o
			}
		case o.End != nil && t.end == nil:
			t.end, t.endPlace = o, i
		case o.End != nil:
			if o.End.Status == scheduler.RunFailed && t.lateError == nil {
				t.lateError = o.End.Error
			}
			if o.End.TimedOut && t.end.End.Status == scheduler.RunFailed {
				t.end = t.end.timedOut()
			}
		case o.Runtime != nil && t.runtime == nil:
			t.runtime, t.runtimeHeard = o.Runtime, o.Heard
		}
	}
	return byID
}

// applyOutcomes works in this order, so that two listeners, or a listener and
// the peer's, never wait for each other in a circle: runs are locked by id, then
// work in lanes, then tasks by id, then rows of our other tables; only then runs and
// tasks are updated. (The peer locks one run, then its task.)
func (tx *Tx) applyOutcomes(ctx context.Context, outcomes []Outcome) error {
	byID := gather(outcomes)
	ids := make([]string, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	rows, err := tx.q.LockRuns(ctx, ids)
	if err != nil {
		return err
	}
	if err := tx.settleLanes(ctx, byID, rows); err != nil {
		return err
	}
	if len(rows) > 0 {
		if err := tx.applyToRuns(ctx, rows, byID); err != nil {
			return err
		}
	}
	return tx.settleInFlight(ctx, byID)
}

func (tx *Tx) applyToRuns(ctx context.Context, rows []queries.LockRunsRow, byID map[string]*told) error {
	runs := make([]runUpdate, len(rows))
	for i, row := range rows {
		runs[i] = runUpdate{row, byID[*row.BackendID].ofRun()} // not null: it was found by its value
	}
	if err := tx.lockTasksOfEnded(ctx, runs); err != nil {
		return err
	}
	newest, err := tx.recordStarts(ctx, runs)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, []runUpdate, map[int64]bool) error{
		tx.startRuns, tx.fillStarts, tx.endRuns,
	} {
		if err := step(ctx, runs, newest); err != nil {
			return err
		}
	}
	if err := tx.fillErrors(ctx, runs); err != nil {
		return err
	}
	return tx.recordDurations(ctx, runs)
}

func (tx *Tx) lockTasksOfEnded(ctx context.Context, runs []runUpdate) error {
	var tasks []int64
	for _, r := range runs {
		if r.Open && r.told.end != nil {
			tasks = append(tasks, r.Task)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	return tx.q.LockTasks(ctx, tasks)
}

// recordStarts returns the runs for which the batch has the newest start.
func (tx *Tx) recordStarts(ctx context.Context, runs []runUpdate) (map[int64]bool, error) {
	var p queries.RecordStartsParams
	for _, r := range runs {
		if s := r.told.start; s != nil {
			p.Runs = append(p.Runs, r.ID)
			p.EventTimes = append(p.EventTimes, s.Start.EventTime)
			p.Workers = append(p.Workers, s.Start.workerName())
			p.Heard = append(p.Heard, s.Heard)
		}
	}
	if len(p.Runs) == 0 {
		return nil, nil
	}
	ids, err := tx.q.RecordStarts(ctx, p)
	if err != nil {
		return nil, err
	}
	newest := make(map[int64]bool, len(ids))
	for _, id := range ids {
		newest[id] = true
	}
	return newest, nil
}

// startRuns starts open runs that the batch does not end as well.
func (tx *Tx) startRuns(ctx context.Context, runs []runUpdate, newest map[int64]bool) error {
	var p queries.StartRunsParams
	for _, r := range runs {
		if r.Open && r.told.end == nil && newest[r.ID] {
			p.Runs = append(p.Runs, r.ID)
			p.Started = append(p.Started, r.told.start.Heard)
			p.Metadata = append(p.Metadata, r.metadata(true))
		}
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return tx.q.StartRuns(ctx, p)
}

// fillStarts adds late starts to runs that had ended before this batch.
func (tx *Tx) fillStarts(ctx context.Context, runs []runUpdate, newest map[int64]bool) error {
	var p queries.FillStartsParams
	for _, r := range runs {
		if !r.Open && newest[r.ID] {
			p.Runs = append(p.Runs, r.ID)
			p.Started = append(p.Started, r.told.start.Heard)
			p.Metadata = append(p.Metadata, metadata(r.told.start, nil))
		}
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return tx.q.FillStarts(ctx, p)
}

// endRuns ends open runs. Runs of one task end one statement after another, in
// the order their ends came, because each moves the task on from where the one
// before left it, and the order within a statement is PostgreSQL's choice.
func (tx *Tx) endRuns(ctx context.Context, runs []runUpdate, newest map[int64]bool) error {
	ending := slices.DeleteFunc(slices.Clone(runs), func(r runUpdate) bool { return !r.Open || r.told.end == nil })
	slices.SortStableFunc(ending, func(a, b runUpdate) int { return cmp.Compare(a.told.endPlace, b.told.endPlace) })
	var waves []queries.EndRunsParams
	nth := make(map[int64]int) // of a task: how many of its runs are in waves
	for _, r := range ending {
		if nth[r.Task] == len(waves) {
			waves = append(waves, queries.EndRunsParams{})
		}
		p := &waves[nth[r.Task]]
		nth[r.Task]++

		starts, end := newest[r.ID], r.told.end
		started := end.Heard
		if starts && r.told.start.Heard.Before(end.Heard) {
			started = r.told.start.Heard
		}
		p.Runs = append(p.Runs, r.ID)
		p.Starts = append(p.Starts, starts)
		p.Started = append(p.Started, started)
		p.Ended = append(p.Ended, end.Heard)
		p.Statuses = append(p.Statuses, string(end.End.Status))
		p.Metadata = append(p.Metadata, r.metadata(starts))
	}
	for _, p := range waves {
		if err := tx.q.EndRuns(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// fillErrors gives failed runs the error text of a later report.
func (tx *Tx) fillErrors(ctx context.Context, runs []runUpdate) error {
	var p queries.FillErrorsParams
	for _, r := range runs {
		text := r.told.lateError
		if end := r.told.end; !r.Open && end != nil && end.End.Status == scheduler.RunFailed && end.End.Error != nil {
			text = end.End.Error
		}
		if text != nil {
			p.Runs = append(p.Runs, r.ID)
			p.Metadata = append(p.Metadata, metadata(nil, &RunEnd{Error: text}))
		}
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return tx.q.FillErrors(ctx, p)
}

func (tx *Tx) recordDurations(ctx context.Context, runs []runUpdate) error {
	var p queries.RecordDurationsParams
	for _, r := range runs {
		if r.told.runtime != nil {
			p.Runs = append(p.Runs, r.ID)
			p.Runtimes = append(p.Runtimes, r.told.runtime.Seconds())
			p.Heard = append(p.Heard, r.told.runtimeHeard)
		}
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return tx.q.RecordDurations(ctx, p)
}

// metadata is what the batch adds to the metadata of a run that was open.
func (r runUpdate) metadata(starts bool) string {
	var start *Outcome
	if starts {
		start = r.told.start
	}
	var end *RunEnd
	if r.told.end != nil {
		end = r.told.end.End
	}
	return metadata(start, end)
}

// metadata is the JSON object that a start and an end add to a run's metadata.
// Like the peer, a start that names no worker writes null.
func metadata(start *Outcome, end *RunEnd) string {
	object := make(map[string]*string, 2)
	if start != nil {
		object["worker"] = start.Start.Worker
	}
	if end != nil && end.Error != nil {
		object["error"] = end.Error
	}
	text, _ := json.Marshal(object) // strings and nulls always marshal
	return string(text)
}
