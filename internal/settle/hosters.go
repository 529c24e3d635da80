package settle

import (
	"cmp"
	"slices"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/ledger"
)

// hosterEnd is the end of a visit for hosters that back off, and its task type for the metrics.
type hosterEnd struct {
	refusals.End
	taskType string
	visit    ledger.RefusedVisit // without Again
}

// awaitResults keeps visits of hosters that back off until their result is known. Celery's task-succeeded may be received
// before the event with the result. Settled work has hosters only while it waits for that.
func awaitResults(rules model.Hosters, byID map[string]*report, work []ledger.LockedWork, s *ledger.Settlement) {
	for _, w := range work {
		t := byID[w.TaskID.String()]
		if !w.Settled && (t.end != nil || t.runtime == nil) || !slices.ContainsFunc(w.Hosters, rules.BacksOff) {
			continue
		}
		gone := slices.Index(s.WorkGone, w.TaskID)
		switch {
		case w.Settled && t.end != nil && gone < 0:
			s.WorkGone = append(s.WorkGone, w.TaskID)
		case w.Settled && t.end != nil:
		case w.Settled && gone >= 0: // task-succeeded again
			s.WorkGone = slices.Delete(s.WorkGone, gone, gone+1)
		case w.Settled:
		case gone >= 0:
			s.WorkGone = slices.Delete(s.WorkGone, gone, gone+1)
			s.WorkSettled = append(s.WorkSettled, ledger.WorkSettle{
				TaskID: w.TaskID, Received: t.runtimeReported, Started: *cmp.Or(w.Started, new(float64)), AwaitsResult: true,
			})
		default:
			for i := range s.WorkSettled {
				s.WorkSettled[i].AwaitsResult = s.WorkSettled[i].AwaitsResult || s.WorkSettled[i].TaskID == w.TaskID
			}
		}
	}
}

// hosterEnds returns the ends of visits that say whether their hosters refuse visits: successes and refusals. Other
// failures say nothing, nor do time-outs, which are requeued. A visit that ended without a result says nothing either.
func hosterEnds(rules model.Hosters, byID map[string]*report, work []ledger.LockedWork, s ledger.Settlement) (ends []hosterEnd) {
	if rules.Backoff == nil {
		return nil
	}
	for _, w := range work {
		t := byID[w.TaskID.String()]
		if t.end == nil || len(w.Hosters) == 0 ||
			slices.ContainsFunc(s.WorkRequeued, func(r ledger.WorkRequeue) bool { return r.TaskID == w.TaskID }) {
			continue
		}
		e := hosterEnd{taskType: w.TaskType, End: refusals.End{Claimed: w.Claimed, Received: t.end.Received}}
		for _, hoster := range w.Hosters {
			if rules.BacksOff(hoster) {
				e.Hosters = append(e.Hosters, hoster)
			}
		}
		switch status := t.end.End.Status; {
		case len(e.Hosters) == 0:
			continue
		case t.failed() && !t.end.End.TimedOut:
			for _, text := range []*string{t.end.End.Error, t.lateError} {
				if text != nil && e.Refusal.Kind == "" {
					e.Refusal = refusals.Of(*text, model.HostOf(w.Origin.URL), e.Received)
					e.Reason = beginning(*text, refusals.MaxReason)
				}
			}
			if e.Refusal.Kind == "" {
				continue
			}
			e.visit = ledger.RefusedVisit{
				URL: w.Origin.URL, VisitType: w.Origin.VisitType, Claimed: w.Claimed, Ended: t.endTime(), Heard: e.Received, TaskID: w.TaskID,
			}
		case status != model.RunEventful && status != model.RunUneventful:
			continue
		}
		ends = append(ends, e)
	}
	slices.SortStableFunc(ends, func(a, b hosterEnd) int { return a.Received.Compare(b.Received) })
	return ends
}

// learning returns the part of a settlement about hosters.
func learning(rules model.Hosters, all []hosterEnd) (h ledger.HosterEnds) {
	ends := make([]refusals.End, len(all))
	for i, e := range all {
		ends[i] = e.End
		h.Ended = append(h.Ended, e.Hosters...)
		if e.Refusal.Kind != "" {
			h.Refused = append(h.Refused, e.Hosters...)
		}
	}
	slices.Sort(h.Ended)
	slices.Sort(h.Refused)
	h.Ended, h.Refused = slices.Compact(h.Ended), slices.Compact(h.Refused)
	h.Learn = func(known []refusals.State, loads []refusals.Load) ([]refusals.State, []ledger.RefusedVisit) {
		states, again := refusals.Learn(rules, known, loads, ends)
		var visits []ledger.RefusedVisit
		for i, moment := range again {
			if v := all[i].visit; !moment.IsZero() && v.URL != "" {
				v.Again = moment
				visits = append(visits, v)
			}
		}
		return states, visits
	}
	return h
}

// countRefused counts refused visits, after the commit.
func (m *Metrics) countRefused(ends []hosterEnd) {
	if m == nil {
		return
	}
	for _, e := range ends {
		if e.Refusal.Kind != "" {
			m.refused.WithLabelValues(cmp.Or(e.taskType, otherTypes), string(e.Refusal.Kind)).Inc()
		}
	}
}
