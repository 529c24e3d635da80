package settle

import (
	"cmp"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Outcome is the content of one event on a run or on work in the ledger (visits have no run). Exactly one of Start,
// End and Runtime is set.
type Outcome struct {
	BackendID string    // Celery's task id, as in task_run.backend_id
	Received  time.Time // when the listener received the event, in the database's time; the run's times are set to it
	Start     *Start
	End       *End
	Runtime   *time.Duration // runtime of a successful run
}

// Start is the start of a run by a worker.
type Start struct {
	Worker    *string // nil if the event names none
	EventTime float64 // worker's clock, seconds since 1970 UTC; orders the starts of a run, and nothing else
}

func (s *Start) observed() ledger.StartEvent {
	return ledger.StartEvent{EventTime: s.EventTime, Worker: *cmp.Or(s.Worker, new(""))}
}

// before orders the starts of a run.
func before(a, b ledger.StartEvent) bool {
	return cmp.Or(cmp.Compare(a.EventTime, b.EventTime), cmp.Compare(a.Worker, b.Worker)) < 0
}

// End is the end of a run.
type End struct {
	Status    model.RunStatus
	Error     *string // of a failure; goes into the run's metadata; nil for none
	TimedOut  bool    // a time limit ended the run; Status is failed then
	Final     Final   // why the task is not retried before its next regular run; Status is failed then
	Unstarted bool    // no worker started it
	Worker    string  // worker that reports it; "" if the event names none
	EventTime float64 // worker's clock, seconds since 1970 UTC; 0 if unknown
}

// Final is the reason why a failed run is not retried, as one word for the run's metadata; "" if it is retried.
type Final string

const (
	Revoked  Final = "revoked"  // by a person
	Rejected Final = "rejected" // its worker dropped the message for good
)

// report merges the outcomes of a batch for one backend id.
type report struct {
	start           *Outcome // the newest
	end             *Outcome // the first
	endPlace        int      // of end in the batch
	lateError       *string  // of a failure after the first end
	runtime         *time.Duration
	runtimeReported time.Time
}

// gather merges outcomes into one record per backend id.
func gather(outcomes []Outcome) map[string]*report {
	byID := make(map[string]*report)
	for i := range outcomes {
		o := &outcomes[i]
		t := byID[o.BackendID]
		if t == nil {
			t = &report{}
			byID[o.BackendID] = t
		}
		switch {
		case o.Start != nil:
			if t.start == nil || before(t.start.Start.observed(), o.Start.observed()) {
				t.start = o
			}
		case o.End != nil && t.end == nil:
			t.end, t.endPlace = o, i
		case o.End != nil:
			t.lateError = cmp.Or(t.lateError, o.End.Error)
			if t.failed() {
				first, end := *t.end, merged(*t.end.End, *o.End)
				first.End = &end
				t.end = &first
			}
		case o.Runtime != nil && t.runtime == nil:
			t.runtime, t.runtimeReported = o.Runtime, o.Received
		}
	}
	return byID
}

// merged adds to the end of a failed run the details of a later end. Workers that acknowledge late may reject the
// message of a task that failed: then the failure decides whether the task is retried.
func merged(first, later End) End {
	first.TimedOut = first.TimedOut || later.TimedOut
	switch {
	case later.Final == Revoked:
		first.Final = Revoked
	case first.Final == Rejected && later.Final == "" && later.Status == model.RunFailed:
		first.Final = ""
	}
	return first
}

// keysOf lists the ids of a batch, for the store to load their rows.
func keysOf(byID map[string]*report) ledger.Subjects {
	var h ledger.Subjects
	for text := range byID {
		h.BackendIDs = append(h.BackendIDs, text)
		if id, ok := model.ParseTaskID(text); ok {
			h.TaskIDs = append(h.TaskIDs, id)
		}
	}
	return h
}

// failed reports whether the batch has a failed end.
func (t *report) failed() bool { return t.end != nil && t.end.End.Status == model.RunFailed }

// endReceived returns when the listener received the event of the end, or if there is none, of the runtime.
func (t *report) endReceived() time.Time {
	if t.end != nil {
		return t.end.Received
	}
	return t.runtimeReported
}

// startTime returns the time of the newest start, in seconds since 1970 UTC, on the worker's clock if the event has
// it.
func (t *report) startTime() float64 {
	if t.start.Start.EventTime > 0 {
		return t.start.Start.EventTime
	}
	return model.UnixSeconds(t.start.Received)
}

// endTime returns the end of the work, in seconds since 1970 UTC, on the worker's clock if the event has it.
func (t *report) endTime() float64 {
	if t.end != nil && t.end.End.EventTime > 0 {
		return t.end.End.EventTime
	}
	return model.UnixSeconds(t.endReceived())
}
