package settle

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/sql/ledger"
)

// workSettler decides the changes to messages of the ledger.
type workSettler struct {
	ledger.Settlement
	runs     map[string]ledger.LockedRun // by backend id
	requeued map[string]bool             // backend ids of messages that are requeued
	final    map[string]bool             // backend ids that timed out in the last lane
	newID    func() uuid.UUID
}

func newWorkSettler(runs []ledger.LockedRun, newID func() uuid.UUID) *workSettler {
	w := &workSettler{
		Settlement: ledger.Settlement{
			Charges: make(ledger.Charges), Records: make(ledger.LaneRecords),
			Memories: make(map[int64]ledger.WorkMemory), Counts: make(map[ledger.SketchCount]float64), HalfLife: lanes.SketchHalfLife,
		},
		runs: make(map[string]ledger.LockedRun, len(runs)), requeued: make(map[string]bool), final: make(map[string]bool), newID: newID,
	}
	for _, r := range runs {
		w.runs[r.BackendID] = r
	}
	return w
}

// settle decides the change to one message. A message starts, or ends, or times out and is requeued on the next lane
// under a new id. A requeued message has no end.
func (s *workSettler) settle(w ledger.LockedWork, t *report) {
	if w.Settled {
		s.learnMore(w, t)
		return
	}
	laned := w.Lane.Set != ""
	if t.start != nil {
		if laned && w.Started == nil && w.TimedOut == 0 {
			s.wait(w, t)
		}
		w.Started = new(t.startTime())
	}
	ended := t.end != nil || t.runtime != nil
	// A task that catches the time-out's exception reports a failure, and Celery then a success that took longer
	// than the limit. The failed result decides.
	if laned && t.end == nil && t.runtime != nil && reaches(t.runtime.Seconds(), w.Lane.SoftLimit.Seconds()) {
		ended = false
		if w.Started == nil {
			w.Started = new(t.endTime() - t.runtime.Seconds())
		}
	}
	if !ended {
		s.WorkBegun = append(s.WorkBegun, ledger.WorkBegin{TaskID: w.TaskID, Started: *w.Started})
		return
	}
	var took float64 // seconds, reported by the worker, else from the start to the end
	known := true
	switch {
	case t.runtime != nil:
		took = t.runtime.Seconds()
	case w.Started != nil:
		took = max(0, t.endTime()-*w.Started)
	case t.end.End.Unstarted:
	default:
		known = false
	}
	if laned && t.failed() && t.end.End.Final == "" && (t.end.End.TimedOut || reaches(took, w.Lane.SoftLimit.Seconds())) {
		s.timeOut(w, t, took, known)
	} else {
		s.end(w, t, took, known)
	}
}

// end decides the change to a message that ended other than by a time-out. If its runtime is not known yet, the row
// stays settled until the event that its end overtook arrives.
func (s *workSettler) end(w ledger.LockedWork, t *report, took float64, known bool) {
	received := t.endReceived()
	settled := ledger.WorkSettle{TaskID: w.TaskID, Received: received}
	if w.Share.Shared {
		charged := took
		if !known {
			charged = w.Share.Cost
			settled.Charged = &charged
		}
		s.Charges.Add(w.Home, w.Share.Group, charged, 1, received)
	}
	if w.Lane.Set != "" {
		s.record(w, ledger.LaneEnded, received)
		switch {
		case t.failed(): // the runtime of a failure is no measure of the work
		case took > 0:
			s.done(w, took, received)
		default:
			settled.AwaitsRuntime = true
		}
	}
	if settled.Charged == nil && !settled.AwaitsRuntime {
		s.WorkGone = append(s.WorkGone, w.TaskID)
		return
	}
	settled.Started = *cmp.Or(w.Started, new(float64))
	s.WorkSettled = append(s.WorkSettled, settled)
}

// timeOut decides the change to a message that timed out. It is requeued on the next lane, if there is one and its
// run has not been given up. In the last lane its run is not retried, unless the lane is configured to.
func (s *workSettler) timeOut(w ledger.LockedWork, t *report, took float64, known bool) {
	received := t.endReceived()
	limit := w.Lane.SoftLimit.Seconds()
	if w.Share.Shared {
		if !known {
			took = limit
		}
		s.Charges.Add(w.Home, w.Share.Group, took, 1, received)
	}
	s.record(w, ledger.LaneTimedOut, received)
	if w.TimedOut == 0 && w.Lane.Left > 0 {
		s.record(w, ledger.LaneSlowSentExpress, received)
	}
	s.remember(w, max(took, limit), true, received)
	id := w.TaskID.String()
	run, isRun := s.runs[id]
	s.final[id] = w.Lane.Left == 0 && !w.Lane.Retried
	if w.Lane.Left == 0 || isRun && !run.Open() {
		s.WorkGone = append(s.WorkGone, w.TaskID)
		return
	}
	next := s.newID()
	s.requeued[id] = true
	s.WorkRequeued = append(s.WorkRequeued, ledger.WorkRequeue{TaskID: w.TaskID, NewID: next, Received: received})
	if w.Lane.URL != "" {
		s.Settlement.TimedOut = append(s.Settlement.TimedOut, ledger.VisitTimeout{
			URL: w.Lane.URL, VisitType: w.Lane.VisitType, Claimed: w.Claimed, TimedOut: t.endTime(), Received: received,
		})
	}
	if isRun {
		s.Requeued = append(s.Requeued, ledger.RunRequeue{Run: run.ID, NewID: next, LaneName: w.Lane.Name})
	}
}

// learnMore uses late events of settled work: results overtake the events of its start and its runtime.
func (s *workSettler) learnMore(w ledger.LockedWork, t *report) {
	waits := t.start != nil && w.Started == nil
	if waits && w.Lane.Set != "" && w.TimedOut == 0 {
		s.wait(w, t)
	}
	if t.runtime == nil {
		if waits {
			s.WorkBegun = append(s.WorkBegun, ledger.WorkBegin{TaskID: w.TaskID, Started: t.startTime()})
		}
		return
	}
	if w.Share.Shared {
		s.Charges.Add(w.Home, w.Share.Group, t.runtime.Seconds()-w.Share.Cost, 0, t.runtimeReported)
	}
	if w.Lane.Set != "" {
		s.done(w, t.runtime.Seconds(), t.runtimeReported)
	}
	s.WorkGone = append(s.WorkGone, w.TaskID)
}

// latest moves the settlement's time to end, if that is later.
func (s *workSettler) latest(end time.Time) {
	if end.After(s.LastEnd) {
		s.LastEnd = end
	}
}

// record adds an event to the history of a message's lane.
func (s *workSettler) record(w ledger.LockedWork, what string, received time.Time) {
	s.latest(received)
	s.Records.Add(w.Lane.Set, w.Lane.Name, what, 0, received, 1)
}

// wait records the time that a first try waited for its start.
func (s *workSettler) wait(w ledger.LockedWork, t *report) {
	began := t.start.Received
	s.Records.Add(w.Lane.Set, w.Lane.Name, ledger.LaneWait, lanes.Bucket(max(0, began.Sub(w.Claimed).Seconds())), began, 1)
}

// done records the runtime of a message that did not time out.
func (s *workSettler) done(w ledger.LockedWork, took float64, received time.Time) {
	s.remember(w, took, false, received)
	if w.Lane.Below > 0 && took <= w.Lane.Below {
		s.record(w, ledger.LaneQuickSentSlow, received)
	}
}

// remember records the runtime of work, in seconds.
func (s *workSettler) remember(w ledger.LockedWork, took float64, atLeast bool, received time.Time) {
	s.latest(received)
	s.Memories[w.Lane.Key] = ledger.WorkMemory{Seconds: took, Behind: w.Lane.Behind, AtLeast: atLeast, Received: received}
	for _, lister := range slices.Compact([]string{"", w.Lane.Lister}) {
		s.Counts[ledger.SketchCount{Set: w.Lane.Set, SketchKey: ledger.SketchKey{Lister: lister, First: w.Lane.First}, Bucket: lanes.Bucket(took)}]++
	}
}

// reaches reports whether work with a runtime of took seconds may have been stopped by the limit. The worker's pool
// measures the limit from a moment before the work begins.
func reaches(took, softLimit float64) bool { return took >= 0.99*softLimit }
