package settle

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/sql/ledger"
)

// workSettler decides what becomes of messages of the ledger.
type workSettler struct {
	ledger.Settlement
	runs     map[string]ledger.LockedRun // by backend id
	requeued map[string]bool             // backend ids
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

// settle decides what becomes of one message: it started, it ended, or it timed out and
// is requeued on the next lane under a new id, as if its end had not been heard.
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
	// A task that catches the time-out's exception reports a failure, and Celery then a
	// success that took longer than the limit: the result decides.
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
	var took float64 // seconds, by the worker, else from the start to the end
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

// end decides what becomes of a message that ended other than by a time-out. What is not
// known yet is learnt from events that its end overtook.
func (s *workSettler) end(w ledger.LockedWork, t *report, took float64, known bool) {
	heard := t.endReceived()
	settled := ledger.WorkSettle{TaskID: w.TaskID, Heard: heard}
	if w.Share.Shared {
		charged := took
		if !known {
			charged = w.Share.Cost
			settled.Charged = &charged
		}
		s.Charges.Add(w.Home, w.Share.Group, charged, 1, heard)
	}
	if w.Lane.Set != "" {
		s.record(w, ledger.LaneEnded, heard)
		switch {
		case t.failed(): // which says little of how long it takes
		case took > 0:
			s.done(w, took, heard)
		default:
			settled.Teaches = true
		}
	}
	if settled.Charged == nil && !settled.Teaches {
		s.WorkGone = append(s.WorkGone, w.TaskID)
		return
	}
	settled.Started = *cmp.Or(w.Started, new(float64))
	s.WorkSettled = append(s.WorkSettled, settled)
}

// timeOut decides what becomes of a message that timed out: it is requeued on the next
// lane, if there is one and its run has not been given up. If there is none, that is final for
// its run, unless the lane says otherwise.
func (s *workSettler) timeOut(w ledger.LockedWork, t *report, took float64, known bool) {
	heard := t.endReceived()
	limit := w.Lane.SoftLimit.Seconds()
	if w.Share.Shared {
		if !known {
			took = limit
		}
		s.Charges.Add(w.Home, w.Share.Group, took, 1, heard)
	}
	s.record(w, ledger.LaneTimedOut, heard)
	if w.TimedOut == 0 && w.Lane.Left > 0 {
		s.record(w, ledger.LaneSlowSentExpress, heard)
	}
	s.remember(w, max(took, limit), true, heard)
	id := w.TaskID.String()
	run, isRun := s.runs[id]
	s.final[id] = w.Lane.Left == 0 && !w.Lane.Retried
	if w.Lane.Left == 0 || isRun && !run.Open() {
		s.WorkGone = append(s.WorkGone, w.TaskID)
		return
	}
	next := s.newID()
	s.requeued[id] = true
	s.WorkRequeued = append(s.WorkRequeued, ledger.WorkRequeue{TaskID: w.TaskID, NewID: next, Heard: heard})
	if w.Lane.URL != "" {
		s.Settlement.TimedOut = append(s.Settlement.TimedOut, ledger.VisitTimeout{
			URL: w.Lane.URL, VisitType: w.Lane.VisitType, Claimed: w.Claimed, TimedOut: t.endTime(), Heard: heard,
		})
	}
	if isRun {
		s.Requeued = append(s.Requeued, ledger.RunRequeue{Run: run.ID, NewID: next, LaneName: w.Lane.Name})
	}
}

// learnMore uses what is told of settled work: results overtake the events that tell
// when it started and how long it took.
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

func (s *workSettler) hear(end time.Time) {
	if end.After(s.Heard) {
		s.Heard = end
	}
}

// record adds an event to the history of a message's lane.
func (s *workSettler) record(w ledger.LockedWork, what string, heard time.Time) {
	s.hear(heard)
	s.Records.Add(w.Lane.Set, w.Lane.Name, what, 0, heard, 1)
}

// wait records how long a first try waited to start.
func (s *workSettler) wait(w ledger.LockedWork, t *report) {
	began := t.start.Heard
	s.Records.Add(w.Lane.Set, w.Lane.Name, ledger.LaneWait, lanes.Bucket(max(0, began.Sub(w.Claimed).Seconds())), began, 1)
}

// done learns from a message that did not time out.
func (s *workSettler) done(w ledger.LockedWork, took float64, heard time.Time) {
	s.remember(w, took, false, heard)
	if w.Lane.Below > 0 && took <= w.Lane.Below {
		s.record(w, ledger.LaneQuickSentSlow, heard)
	}
}

// remember records how long work took, in seconds.
func (s *workSettler) remember(w ledger.LockedWork, took float64, atLeast bool, heard time.Time) {
	s.hear(heard)
	s.Memories[w.Lane.Key] = ledger.WorkMemory{Seconds: took, Behind: w.Lane.Behind, AtLeast: atLeast, Heard: heard}
	for _, lister := range slices.Compact([]string{"", w.Lane.Lister}) {
		s.Counts[ledger.SketchCount{Set: w.Lane.Set, SketchKey: ledger.SketchKey{Lister: lister, First: w.Lane.First}, Bucket: lanes.Bucket(took)}]++
	}
}

// reaches reports whether work that took so long, in seconds, may have been stopped by
// the limit, which the pool counts from a moment before the work begins.
func reaches(took, softLimit float64) bool { return took >= 0.99*softLimit }
