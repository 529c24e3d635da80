package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// holdsUp returns possible causes of a queue's standstill, at most maxProblems. First are problems of the queue, then of
// daemons and the set's other lanes, then what the queue waits for. q is nil if the queue is unknown.
func (r *Request) holdsUp(ctx context.Context, name, laneSet string, q *status.Queue) (problems, error) {
	f, err := r.facts(ctx, r.Now)
	if err != nil {
		return nil, err
	}
	pages := []string{"/daemons"}
	for _, l := range f.lanes {
		if l.TaskType == laneSet {
			pages = append(pages, queuePath(l.Queue))
		}
	}
	var causes, elsewhere problems
	for _, p := range f.problems() {
		switch {
		case p.Page == queuePath(name):
			p.Page = ""
			causes = append(causes, p)
		case p.queue != "" && p.queue == name:
			causes = append(causes, p)
		case slices.Contains(pages, p.Page):
			elsewhere = append(elsewhere, p)
		}
	}
	causes = append(causes, elsewhere[:min(len(elsewhere), maxProblems/2)]...) // many silent daemons must not hide the other causes
	if q == nil {
		return causes, nil
	}
	if q.Consumers+q.Ready == 0 && q.Problem == "" {
		causes.add(false, "QueueWithoutConsumer", "", "No worker reads it.")
	}
	add := func(page, format string, args ...any) { causes.add(false, "", page, format, args...) }
	ofType := address("/tasks", "type", q.TaskType, "status", model.TaskScheduled)
	if isFull(q) {
		add(ofType, "It is full: its limit is %s, ready or unacknowledged. More are sent as these end.", model.Count(q.Limit, "message", "messages"))
	}
	working := q.Unacknowledged != nil && *q.Unacknowledged > 0
	if working && q.Ready > 0 && q.Consumers > 0 && q.Out != nil && *q.Out == 0 {
		add(ofType, "Workers take no more, and %s unacknowledged. They run long tasks or hang: the list of tasks shows the workers and start times.", model.Count(*q.Unacknowledged, "message is", "messages are"))
	}
	e := f.ended[ledger.EndedKey{Source: ledger.EndedByWorker, Type: q.TaskType}]
	if working && e != nil && e.Hour > 0 && e.Five == 0 {
		add("/daemons", "No end of %s was reported for five minutes: the workers or start-listener stand still.", q.TaskType)
	}
	fails := slices.ContainsFunc(causes, func(p Problem) bool { return p.Alert == "FailureRateHigh" })
	if of := endsOf(q.TaskType, e); e != nil && !fails && 2*of.Failed > e.Hour && len(of.Reasons) > 0 {
		add(errorPath(q.TaskType, of.Reasons[0].Exception), "Of %s, %d of the %d that ended in the last hour failed%s.", q.TaskType, of.Failed, e.Hour, by(of.Reasons))
	}
	r.nothingToSend(ctx, f, q, add)
	return causes[:min(len(causes), maxProblems)], nil
}

// nothingToSend adds the reasons why an empty queue receives nothing.
func (r *Request) nothingToSend(ctx context.Context, f facts, q *status.Queue, add func(page, format string, args ...any)) {
	if q.Ready+q.Outgoing+q.Backlog > 0 || q.Problem != "" {
		return
	}
	ready := int64(0)
	for _, t := range f.figures.Ready {
		if t.Type == q.TaskType {
			ready += t.Tasks
		}
	}
	if ready == 0 {
		add(address("/tasks", "type", q.TaskType, "status", model.TaskNotScheduled), "No task %s is ready to be sent.", q.TaskType)
	} else if !f.runs("start-runner") {
		add("/daemons", "Ready tasks: %d, but no start-runner runs.", ready)
	}
	visitType, visits := model.LoadedVisitType(q.TaskType)
	if !visits {
		return
	}
	if !f.runs("schedule-recurrent") {
		add("/daemons", "Visits are not sent: no schedule-recurrent runs.")
	}
	for _, h := range f.hosters {
		if h.Refuses != nil {
			add("/hosters", "The hoster %s refuses visits (%s), and gets at most %d in flight.", h.Hoster, h.Refuses.Kind, h.Refuses.MaxInFlight)
		}
		limit := model.HosterLimit{MaxInFlight: h.MaxInFlight, PerMinute: h.PerMinute}
		inFlight, perMinute := limit.Reached(h.InFlight, h.LastMinute)
		if inFlight {
			add("/hosters", "The hoster %s has %s in flight, as many as it takes.", h.Hoster, model.Count(h.InFlight, "visit", "visits"))
		}
		if perMinute {
			add("/hosters", "The hoster %s had %s in the last minute, as many as it takes.", h.Hoster, model.Count(h.LastMinute, "visit", "visits"))
		}
	}
	switch due, known, next, err := r.due(ctx, visitType); {
	case err != nil || due:
	case !known:
		add("/listers", "It is unknown whether an origin of the visit type %s is due, while candidates are built or too many have changed.", visitType)
	case next.IsZero():
		add("/listers", "No origin of the visit type %s is due, or the hosters are full. None becomes due until origins change.", visitType)
	default:
		add("/listers", "No origin of the visit type %s is due, or the hosters are full. The next one is due %s.", visitType, r.ago(next))
	}
}

// due reports whether some policy would pick an origin of a visit type now. If none would, next is when the next origins
// become eligible. known is false without candidates, as scanning the tables may take minutes. The time limit is
// explainTime.
func (r *Request) due(ctx context.Context, visitType string) (due, known bool, next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	for _, p := range model.ExpandPolicies(model.PoliciesOf(r.Config.SchedulingPolicy, visitType)) {
		p.Filter.VisitType, p.Filter.TableSample = visitType, 0
		err := r.Reads.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			due, known, err = tx.AnyVisit(ctx, p.Filter, r.Now)
			return err
		})
		if due || !known || err != nil {
			return due, known, next, err
		}
	}
	next, err = r.Reads.NextDue(ctx, visitType, r.Now)
	return false, true, next, err
}

// runs reports whether a daemon was seen recently.
func (f facts) runs(name string) bool {
	return slices.ContainsFunc(f.daemons, func(d db.Daemon) bool {
		return strings.HasPrefix(d.Name, name) && f.now.Sub(d.LastReport) < overdueAfter
	})
}
