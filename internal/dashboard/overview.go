package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

var overviewPage = Page{
	Path: "/", Title: "Overview", Menu: "Overview", Template: "overview.html", Fragments: []string{"wrong", "flow", "past", "tasks", "visits"}, Data: overview,
}

type overviewData struct {
	Problems problems     `json:"problems"` // at most maxProblems
	More     int          `json:"more_problems"`
	Idle     problems     `json:"idle"`
	NotHere  []string     `json:"not_evaluated"` // alerts that only Prometheus can evaluate
	Flow     flow         `json:"flow"`
	Hosters  hosterCounts `json:"hosters"`
	Past     *series      `json:"past"`        // as workers report, for all task types; nil: see Unread
	Visited  *series      `json:"past_visits"` // as the journal records, for all visit types
	Tasks    []typeData   `json:"tasks"`
	Visits   []typeData   `json:"visits"`
	Unread   []string     `json:"not_read"` // reasons why facts are missing
}

// flow counts messages and tasks by stage. nil is unknown.
type flow struct {
	Ready         int64 `json:"ready"`   // tasks; at most 10,000 of each type are counted
	Backlog       int   `json:"backlog"` // of lanes
	Outgoing      int64 `json:"outgoing"`
	Queued        *int  `json:"queued"`
	Running       *int  `json:"running"`
	TasksEnded    int64 `json:"tasks_ended"` // in the last whole minute
	VisitsEnded   int64 `json:"visits_ended"`
	FailedInAHour int64 `json:"failed_in_an_hour"`
}

// typeData describes the work of a task type or a visit type. Rates are per minute.
type typeData struct {
	Type     string           `json:"type"`
	Rates    [3]float64       `json:"rates"` // over 1, 5 and 60 minutes
	Past     *series          `json:"past"`  // of three hours; nil if nothing ended
	Average  *float64         `json:"average"`
	P95      *float64         `json:"p95"`
	Hour     map[string]int64 `json:"hour"` // number in the last hour by status
	Failed   int64            `json:"failed"`
	Reasons  []reason         `json:"reasons"`
	Ready    int64            `json:"ready"`
	Oldest   *time.Time       `json:"oldest"`
	Queue    *status.Queue    `json:"queue"`
	Position *time.Time       `json:"position"` // of the visit type's queue; nil if it has none, or is Unmoved
	Unmoved  bool             `json:"unmoved"`  // the queue's position has never moved
}

// reason is a class of exceptions; "" if none was reported.
type reason struct {
	Exception string `json:"exception"`
	Failures  int64  `json:"failures"`
}

// Words names the exception.
func (r reason) Words() string { return cmp.Or(r.Exception, "no exception") }

// by returns the most frequent exceptions as a part of a sentence; "" if nothing failed.
func by(most []reason) string {
	switch {
	case len(most) == 0:
		return ""
	case most[0].Exception == "" && len(most) == 1:
		return ", without an exception"
	case most[0].Exception == "":
		return ", most without an exception"
	}
	return ", most by " + most[0].Exception
}

func overview(ctx context.Context, r *Request) (any, error) {
	f, err := r.facts(ctx, r.Now)
	if err != nil {
		return nil, err
	}
	types, err := r.Reads.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	o := overviewData{Problems: f.problems(), Unread: f.unread, NotHere: notHere}
	o.Idle = f.idle()
	o.More = max(0, len(o.Problems)-maxProblems)
	o.Problems = o.Problems[:len(o.Problems)-o.More]
	o.Tasks, o.Visits = taskRows(types, f), visitRows(f)
	o.Flow, o.Hosters = flowOf(f, o), countHosters(f.hosters)
	past, read := r.now.past.part(ctx, r.Dashboard)
	o.Unread = append(o.Unread, unread(read)...)
	o.Past, o.Visited = past[ledger.EndedKey{Source: ledger.EndedByWorker}], past[ledger.EndedKey{Source: ledger.EndedByJournal}]
	for source, rows := range map[string][]typeData{ledger.EndedByWorker: o.Tasks, ledger.EndedByJournal: o.Visits} {
		for i := range rows {
			rows[i].Past = past[ledger.EndedKey{Source: source, Type: rows[i].Type}]
		}
	}
	return o, nil
}

// Charts returns charts of the ended work over time.
func (o overviewData) Charts() (all []chart) {
	if o.Past != nil {
		all = append(all, o.Past.chart("Tasks, and visits of groups and lanes"))
	}
	if o.Visited != nil {
		all = append(all, o.Visited.chart("Visits"))
	}
	return all
}

// Rate returns how many ended per minute, over the last five minutes.
func (t typeData) Rate() float64 { return t.Rates[1] }

func flowOf(f facts, o overviewData) (w flow) {
	for _, t := range o.Tasks {
		w.Ready += t.Ready
		w.TasksEnded += int64(t.Rates[0])
		w.FailedInAHour += t.Failed
	}
	for _, v := range o.Visits {
		w.VisitsEnded += int64(v.Rates[0])
		w.FailedInAHour += v.Failed
		// Events count the same visits, and also those whose worker was killed before it wrote to the journal.
		if at := slices.IndexFunc(o.Tasks, func(t typeData) bool { return t.Type == model.LoaderTaskType(v.Type) }); at >= 0 {
			w.FailedInAHour -= min(v.Failed, o.Tasks[at].Failed)
		}
	}
	for _, m := range f.figures.Outgoing {
		w.Outgoing += m.Messages
	}
	for _, l := range f.lanes {
		w.Backlog += l.Waiting + l.Again
	}
	if f.queues == nil {
		return w
	}
	w.Queued, w.Running = new(0), new(0)
	for _, q := range f.queues {
		*w.Queued += q.Ready
		if q.Unacknowledged == nil {
			w.Running = nil
		} else if w.Running != nil {
			*w.Running += *q.Unacknowledged
		}
	}
	// Workers that acknowledge early have running tasks without unacknowledged messages.
	inHand := 0
	for _, worker := range workersOf(f.daemons, f.now) {
		inHand += worker.Active
	}
	if inHand > 0 && (w.Running == nil || inHand > *w.Running) {
		w.Running = &inHand
	}
	return w
}

// taskRows returns a row for each task type with work, the busiest first.
func taskRows(types []model.TaskType, f facts) []typeData {
	rows := []typeData{}
	ready := make(map[string][]*db.ReadyTasks)
	for i := range f.figures.Ready {
		r := &f.figures.Ready[i]
		ready[r.Type] = append(ready[r.Type], r)
	}
	queues := make(map[string]*status.Queue, len(f.queues))
	for i := range f.queues {
		if q := &f.queues[i]; queues[q.Queue] == nil {
			queues[q.Queue] = q
		}
	}
	for _, tt := range types {
		row := endsOf(tt.Type, f.ended[ledger.EndedKey{Source: ledger.EndedByWorker, Type: tt.Type}])
		for _, r := range ready[tt.Type] {
			row.Ready += r.Tasks
			if row.Oldest == nil || r.Oldest.Before(*row.Oldest) {
				row.Oldest = &r.Oldest
			}
		}
		row.Queue = queues[tt.Queue()]
		if row.Hour != nil || row.Ready > 0 || row.Queue != nil {
			rows = append(rows, row)
		}
	}
	return busiestFirst(rows)
}

func visitRows(f facts) []typeData {
	rows := []typeData{}
	for key, e := range f.ended {
		if key.Source == ledger.EndedByJournal {
			row := endsOf(key.Type, e)
			row.Failed = failures(key.Source, e.Statuses)
			if at := slices.IndexFunc(f.figures.Positions, func(p origins.VisitQueuePosition) bool { return p.VisitType == key.Type }); at >= 0 {
				row.Position, row.Unmoved = positionOf(f.figures.Positions[at])
			}
			rows = append(rows, row)
		}
	}
	return busiestFirst(rows)
}

// firstPosition is earlier than any real position of a visit queue: the archive's first visits are of 2015.
var firstPosition = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// positionOf returns the position of a visit type's queue. at is nil if the position has never moved.
func positionOf(p origins.VisitQueuePosition) (at *time.Time, unmoved bool) {
	if moved := time.Unix(p.Position, 0); !moved.Before(firstPosition) {
		return &moved, false
	}
	return nil, true
}

// maxReasons is the number of exceptions shown for a type.
const maxReasons = 3

// endsOf returns statistics of the ended work of a type; e may be nil.
func endsOf(name string, e *ledger.Ended) typeData {
	row := typeData{Type: name, Reasons: []reason{}}
	if e == nil {
		return row
	}
	row.Rates = [3]float64{float64(e.Minute), float64(e.Five) / 5, float64(e.Hour) / 60}
	row.Hour = e.Statuses
	row.Failed = failures(ledger.EndedByWorker, e.Statuses)
	if known := e.Took.Weight(); known > 0 {
		row.Average, row.P95 = new(e.Seconds/known), new(e.Took.Quantile(0.95))
	}
	row.Reasons = mostReasons(e.Exceptions)
	return row
}

// mostReasons returns the most frequent exceptions, at most maxReasons.
func mostReasons(exceptions map[string]int64) []reason {
	reasons := []reason{}
	for name, failures := range exceptions {
		if failures > 0 {
			reasons = append(reasons, reason{name, failures})
		}
	}
	slices.SortFunc(reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), strings.Compare(a.Exception, b.Exception))
	})
	return reasons[:min(len(reasons), maxReasons)]
}

func busiestFirst(rows []typeData) []typeData {
	slices.SortFunc(rows, func(a, b typeData) int {
		return cmp.Or(cmp.Compare(b.Rates[2], a.Rates[2]), cmp.Compare(b.Ready, a.Ready), strings.Compare(a.Type, b.Type))
	})
	return rows[:min(len(rows), maxRows)]
}

// maxRows is the largest number of rows of a table on a page.
const maxRows = 100
