package settle

import (
	"cmp"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/ledger"
)

const (
	// maxExceptions bounds the classes of exceptions that are counted by name.
	maxExceptions = 50

	// otherTypes is the type of messages without a row in the database: visits of queues without groups and lanes,
	// and tasks of other senders.
	otherTypes = "other"
)

// seconds are the buckets of runtimes and waits: from a second to a week.
var seconds = []float64{1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}

// Metrics count the outcomes of tasks. Each end counts once, even if its event repeats.
type Metrics struct {
	outcomes, failures       *prometheus.CounterVec
	refused                  *prometheus.CounterVec
	runtime, wait, laneWait  *prometheus.HistogramVec
	ended, timedOut, guesses *prometheus.CounterVec
	exceptions               service.LabelValues
}

// NewMetrics registers the metrics on reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{Name: "swh_scheduler_" + name, Help: help, Buckets: seconds}, labels)
	}
	return &Metrics{
		exceptions: service.LabelValues{Max: maxExceptions},
		outcomes:   counter("task_outcomes_total", "Tasks that ended, by type and status.", "task_type", "status"),
		failures:   counter("task_failures_total", "Failed tasks, by type and by the class of the exception in the last line of the traceback.", "task_type", "exception"),
		refused:    counter("refused_visits_total", "Visits that their hosters refused, by type and kind: too_many, unavailable, refused, unresolved, timed_out, broken, tls.", "task_type", "kind"),
		runtime:    histogram("task_runtime_seconds", "Time from the last start of a task to its end, by type.", "task_type"),
		wait:       histogram("task_wait_seconds", "Time from the claim of a task to its first start, by type.", "task_type"),
		laneWait:   histogram("lane_wait_seconds", "Time from the claim to the start of the first try, by lane.", "lane_set", "lane"),
		ended:      counter("lane_ended_total", "Work that ended in a lane, other than by a time-out.", "lane_set", "lane"),
		timedOut:   counter("lane_timeouts_total", "Work that timed out in a lane, by outcome: moved to the next lane, or failed.", "lane_set", "lane", "outcome"),
		guesses:    counter("lane_wrong_predictions_total", "Work that ended and was sent to the wrong lane: quick_sent_slow, slow_sent_express.", "lane_set", "lane", "kind"),
	}
}

// observation is the new information of a batch on one message. Times are in seconds, negative if unknown.
type observation struct {
	taskType     string
	status       model.RunStatus // "" if it did not end
	exception    string          // class of a failure's exception; "" if it has none
	took, waited float64
	lane         ledger.WorkLane // Set is "" if it has no lane
	task         int64           // task.id; 0 if it is not a run of a task
	work         uuid.UUID       // id in the ledger; uuid.Nil if it has no row
	worker       string          // worker that reported the end or the start; "" if unknown
	message      string          // of a failure
	at           time.Time       // when the listener received its end
	open         bool            // its end was not recorded before
	moved        bool            // it timed out and was requeued on the next lane
}

// observe returns the information of a batch that was not recorded before. runs and work are the arguments of
// decide, and s is its result. observe is pure.
func observe(byID map[string]*report, runs []ledger.LockedRun, work []ledger.LockedWork, s ledger.Settlement) []observation {
	all := make(map[string]*observation, len(byID))
	for id, t := range byID {
		all[id] = &observation{taskType: otherTypes, took: -1, waited: -1, open: true}
		if t.runtime != nil {
			all[id].took = t.runtime.Seconds()
		}
	}
	for _, w := range work {
		id := w.TaskID.String()
		all[id].addWork(w, byID[id])
	}
	for _, r := range runs {
		all[r.BackendID].addRun(r, byID[r.BackendID])
	}
	for _, w := range s.WorkRequeued {
		all[w.TaskID.String()].moved = true
	}
	found := make([]observation, 0, len(all))
	for id, o := range all {
		o.setEnd(byID[id])
		found = append(found, *o)
	}
	return found
}

// addWork adds the fields of a row of the ledger.
func (o *observation) addWork(w ledger.LockedWork, t *report) {
	if w.TaskType != "" {
		o.taskType = w.TaskType
	}
	o.lane, o.work = w.Lane, w.TaskID
	o.open = !w.Settled || len(w.Hosters) > 0 // settled work has hosters while it waits for its result
	if t.start != nil {
		if w.Started == nil && w.TimedOut == 0 {
			o.waited = max(0, t.start.Received.Sub(w.Claimed).Seconds())
		}
		w.Started = new(t.startTime())
	}
	if w.Started != nil {
		o.tookSince(*w.Started, t)
	}
}

// addRun adds the fields of a run of a task.
func (o *observation) addRun(r ledger.LockedRun, t *report) {
	o.taskType, o.open, o.task = r.TaskType, r.Open(), r.Task
	start := r.Newest
	if t.start != nil {
		if start == nil && !r.Scheduled.IsZero() {
			o.waited = max(0, t.start.Received.Sub(r.Scheduled).Seconds())
		}
		start = new(t.start.Start.observed())
	}
	if start != nil {
		o.worker = start.Worker
	}
	if start != nil && start.EventTime > 0 {
		o.tookSince(start.EventTime, t)
	}
}

// tookSince computes a runtime that no event has. start is in seconds since 1970 UTC.
func (o *observation) tookSince(start float64, t *report) {
	if o.took < 0 && t.end != nil {
		o.took = max(0, t.endTime()-start)
	}
}

// setEnd sets the end, if this batch is the first to report one.
func (o *observation) setEnd(t *report) {
	if t.end == nil || !o.open || o.moved {
		o.took = -1
		return
	}
	o.status, o.at = t.end.End.Status, t.end.Received
	if t.start != nil {
		o.worker = *cmp.Or(t.start.Start.Worker, &o.worker)
	}
	o.worker = cmp.Or(t.end.End.Worker, o.worker)
	o.message = *cmp.Or(t.end.End.Error, t.lateError, new(""))
	if t.failed() {
		o.exception = exceptionClass(t)
	}
	if o.taskType == otherTypes {
		o.took = -1
	}
}

// exceptionLine matches the last line of a traceback, and Python's repr of an exception. A longer word is no class: it may
// not fit into an index.
var exceptionLine = regexp.MustCompile(`^(?:\w+\.)*([A-Z]\w{0,199})(?:[:(]|$)`)

// exceptionClass returns the class of the exception of a failed task, without its module, or "" if the events name
// none.
func exceptionClass(t *report) string {
	for _, text := range []*string{t.end.End.Error, t.lateError} {
		if text != nil {
			if m := exceptionLine.FindStringSubmatch(*text); m != nil {
				return m[1]
			}
		}
	}
	return ""
}

// ends counts ends and starts of known types.
func (m *Metrics) ends(all []observation) ledger.Ends {
	ends := ledger.Ends{}
	for _, o := range all {
		if o.taskType == otherTypes {
			continue
		}
		if o.waited >= 0 {
			ends.Add(ledger.EndedWait, o.taskType, "", "", o.waited, 1)
		}
		if o.status == "" {
			continue
		}
		ends.Add(ledger.EndedByWorker, o.taskType, string(o.status), m.exception(o), o.took, 1)
	}
	return ends
}

// failed lists the failures of known types. It names their exceptions as ends does.
func (m *Metrics) failed(all []observation) (failures []ledger.Failure) {
	for _, o := range all {
		if o.taskType == otherTypes || !o.status.Failed() {
			continue
		}
		f := ledger.Failure{
			At: o.at, Type: o.taskType, Exception: m.exception(o), Message: beginning(o.message, ledger.MaxMessage), Worker: beginning(o.worker, ledger.MaxMessage),
			Task: o.task, Work: o.work,
		}
		if visitType, loads := model.LoadedVisitType(o.taskType); loads {
			f.VisitType = visitType
		}
		failures = append(failures, f)
	}
	return failures
}

// exception returns the class under which an observation's exception is counted: its own, or one for all others.
func (m *Metrics) exception(o observation) string {
	if m == nil || o.exception == "" {
		return o.exception
	}
	return m.exceptions.Value(o.exception)
}

// beginning returns the first characters of a text.
func beginning(text string, characters int) string {
	if len(text) > characters {
		if runes := []rune(text); len(runes) > characters {
			return string(runes[:characters])
		}
	}
	return text
}

// count adds a batch to the metrics, after its commit.
func (m *Metrics) count(all []observation, records ledger.LaneRecords) {
	if m == nil {
		return
	}
	failed := map[[2]string]int{} // failed messages among those that timed out, by lane
	for _, o := range all {
		if o.status != "" {
			m.outcomes.WithLabelValues(o.taskType, string(o.status)).Inc()
		}
		if o.status == model.RunFailed {
			m.failures.WithLabelValues(o.taskType, m.exceptions.Value(o.exception)).Inc()
		}
		if o.took >= 0 {
			m.runtime.WithLabelValues(o.taskType).Observe(o.took)
		}
		if o.waited >= 0 {
			m.wait.WithLabelValues(o.taskType).Observe(o.waited)
			if o.lane.Set != "" {
				m.laneWait.WithLabelValues(o.lane.Set, o.lane.Name).Observe(o.waited)
			}
		}
		if o.moved {
			m.timedOut.WithLabelValues(o.lane.Set, o.lane.Name, "moved").Inc()
			failed[[2]string{o.lane.Set, o.lane.Name}]--
		}
	}
	records.Each(func(set, lane, what string, n int) {
		switch what {
		case ledger.LaneEnded:
			m.ended.WithLabelValues(set, lane).Add(float64(n))
		case ledger.LaneTimedOut:
			failed[[2]string{set, lane}] += n
		case ledger.LaneQuickSentSlow, ledger.LaneSlowSentExpress:
			m.guesses.WithLabelValues(set, lane, what).Add(float64(n))
		}
	})
	for lane, n := range failed {
		m.timedOut.WithLabelValues(lane[0], lane[1], "failed").Add(float64(n))
	}
}
