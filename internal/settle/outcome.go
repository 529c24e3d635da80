package settle

import (
	"cmp"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Outcome is what one event says of a run or of work in the ledger: visits have no run. Exactly one of Start, End and
// Runtime is set.
type Outcome struct {
	BackendID string    // Celery's task id, as in task_run.backend_id
	Heard     time.Time // when the listener got the event; what the run's times are set to
	Start     *Start
	End       *End
	Runtime   *time.Duration // how long a successful run took
}

// Start is the start of a run by a worker.
type Start struct {
	Worker    *string // nil if the event names none
	EventTime float64 // worker's clock, seconds since 1970 UTC; it only orders the starts of a run
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
	Final     Final   // why the task is not tried again before its next regular run; Status is failed then
	Unstarted bool    // no worker began it
	Worker    string  // that tells of it; "" if the event names none
	EventTime float64 // worker's clock, seconds since 1970 UTC; 0 if unknown
}

// Final is why a failed run is not retried, in one word, for the run's metadata; "" if it is.
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
			t.runtime, t.runtimeReported = o.Runtime, o.Heard
		}
	}
	return byID
}

// merged adds to the end of a failed run what a later one tells of it. Workers that acknowledge late may
// reject the message of a task that failed: then the failure decides whether it is retried.
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

// keysOf lists what a batch is about, for the store to load.
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

// endReceived returns when the listener got the event of the end, or else that of the runtime.
func (t *report) endReceived() time.Time {
	if t.end != nil {
		return t.end.Heard
	}
	return t.runtimeReported
}

// startTime is when the newest start was, in seconds since 1970 UTC, on the worker's
// clock if the event tells it.
func (t *report) startTime() float64 {
	if t.start.Start.EventTime > 0 {
		return t.start.Start.EventTime
	}
	return model.UnixSeconds(t.start.Heard)
}

// endTime is when the work ended, in seconds since 1970 UTC, on the worker's clock if
// the event tells it.
func (t *report) endTime() float64 {
	if t.end != nil && t.end.End.EventTime > 0 {
		return t.end.End.EventTime
	}
	return model.UnixSeconds(t.endReceived())
}
