package settle

import (
	"cmp"
	"slices"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// settleRuns decides the changes to runs. Runs whose work is requeued only start. Runs whose work timed out for good
// are not retried.
func settleRuns(s *ledger.Settlement, byID map[string]*report, runs []ledger.LockedRun, requeued, final map[string]bool) {
	var ending []endingRun
	for _, r := range runs {
		t := byID[r.BackendID]
		if requeued[r.BackendID] {
			t = &report{start: t.start}
		}
		starts := newStart(s, r, t)
		switch {
		case r.Open() && t.end != nil:
			ending = append(ending, endingRun{r, t, starts, final[r.BackendID] || t.end.End.Final != ""})
		case starts:
			begin := ledger.RunBegin{Run: r.ID, At: t.start.Received, Metadata: ledger.RunMetadata{Starts: true, Worker: t.start.Start.Worker}}
			if r.Open() {
				s.Begun = append(s.Begun, begin)
			} else {
				s.LateStarts = append(s.LateStarts, begin)
			}
		}
		lateError(s, r, t)
		if t.end != nil && t.end.End.Final == Revoked && (r.Status == model.RunFailed || r.Status == model.RunLost) {
			s.Revoked = append(s.Revoked, ledger.RunRevoked{Run: r.ID, Task: r.Task, Reason: string(Revoked)})
		}
		if t.runtime != nil {
			s.Durations = append(s.Durations, ledger.RunDuration{Run: r.ID, Seconds: t.runtime.Seconds(), Received: t.runtimeReported})
		}
	}
	s.Ended = waves(ending)
}

// newStart records the start of a run in the batch. It reports whether it is the newest start received.
func newStart(s *ledger.Settlement, r ledger.LockedRun, t *report) bool {
	if t.start == nil || r.Newest != nil && !before(*r.Newest, t.start.Start.observed()) {
		return false
	}
	s.StartEvents = append(s.StartEvents, ledger.StartEventOf{Run: r.ID, Start: t.start.Start.observed()})
	return true
}

type endingRun struct {
	ledger.LockedRun
	report *report
	starts bool
	final  bool
}

// waves orders the ends of runs as they came, with at most one run of a task in each wave. Each end moves its task
// on from the state that the end before it left.
func waves(ending []endingRun) [][]ledger.RunEnding {
	slices.SortStableFunc(ending, func(a, b endingRun) int { return cmp.Compare(a.report.endPlace, b.report.endPlace) })
	var waves [][]ledger.RunEnding
	nth := make(map[int64]int) // by task: number of its runs in waves
	for _, r := range ending {
		end := ledger.RunEnding{
			Run: r.ID, Task: r.Task, At: r.report.end.Received, Status: r.report.end.End.Status, Final: r.final,
			Metadata: ledger.RunMetadata{Error: r.report.end.End.Error, NotRetried: string(r.report.end.End.Final)},
		}
		if r.starts {
			end.Metadata.Starts, end.Metadata.Worker = true, r.report.start.Start.Worker
			end.Started = &end.At
			if r.report.start.Received.Before(end.At) {
				end.Started = &r.report.start.Received
			}
		}
		if nth[r.Task] == len(waves) {
			waves = append(waves, nil)
		}
		waves[nth[r.Task]] = append(waves[nth[r.Task]], end)
		nth[r.Task]++
	}
	return waves
}

// lateError sets the error text of a failed run that has none, from a later report.
func lateError(s *ledger.Settlement, r ledger.LockedRun, t *report) {
	text := t.lateError
	failed, has := r.Status == model.RunFailed, r.HasError
	switch {
	case r.Open() && t.end != nil:
		failed, has = t.failed(), has || t.end.End.Error != nil
	case !r.Open() && t.failed() && t.end.End.Error != nil:
		text = t.end.End.Error
	}
	if text != nil && failed && !has {
		s.Errors = append(s.Errors, ledger.RunError{Run: r.ID, Error: *text})
	}
}
