package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/ledger"
)

var typePage = Page{Path: "/types/{type}", Title: "Task type", Template: "type.html", Query: []string{"range"}, Fragments: []string{"state", "over-time", "errors", "runs-now", "queues", "lanes"}, Data: showType}

// typePath returns the address of the page of a task type, from the base.
func typePath(taskType string) string { return "/types/" + url.PathEscape(taskType) }

type typePageData struct {
	Type        string      `json:"type"`
	Description string      `json:"description"`
	Range       string      `json:"range"`
	Ranges      []rangeLink `json:"-"`

	Past     *series   `json:"past"`         // as workers report
	Visited  *series   `json:"past_visits"`  // as the journal records; nil unless the type loads
	Took     quantiles `json:"took"`         // durations of successful runs
	Waited   quantiles `json:"waited"`       // from the claim to the first start
	Average  *float64  `json:"took_average"` // seconds; nil: unknown
	P50      *float64  `json:"took_p50"`
	P95      *float64  `json:"took_p95"`
	WaitP50  *float64  `json:"waited_p50"`
	WaitP95  *float64  `json:"waited_p95"`
	Statuses []reason  `json:"statuses"` // counts by status of Exception

	Errors   []errorGroup   `json:"errors"`
	Running  []running      `json:"running"` // the oldest maxOfType
	Slowest  []slowRun      `json:"slowest"`
	Queues   []status.Queue `json:"queues"`
	Levels   []levels       `json:"over_time"` // of its queues
	Settings []setting      `json:"settings"`
	groupsAndLanes

	sketch, waited lanes.Sketch
}

// setting is a setting of a task type, in words.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type slowRun struct {
	Task    int64     `json:"task"` // 0: it is deleted
	Run     int64     `json:"run"`
	Seconds float64   `json:"seconds"`
	Ended   time.Time `json:"ended"`
}

// maxOfType is the number of rows of a kind on a type's page.
const maxOfType = 20

func (d typePageData) PageTitle() string { return d.Type }

// PerMinute returns how many ended per minute in the range, as workers report.
func (d typePageData) PerMinute() float64 { return perMinute(d.Past) }

// VisitsPerMinute returns how many visits ended per minute, as the journal records.
func (d typePageData) VisitsPerMinute() float64 { return perMinute(d.Visited) }

func perMinute(s *series) float64 {
	if s == nil {
		return 0
	}
	return float64(sum(s.Ended)) / (float64(len(s.Ended)-1) * s.Step / 60)
}

// FailedPart returns the part of the ended work that failed, from 0 to 1; nil if nothing ended.
func (d typePageData) FailedPart() *float64 {
	of := d.Past
	if d.Visited != nil && sum(of.Ended) == 0 {
		of = d.Visited
	}
	if n := sum(of.Ended); n > 0 {
		return new(float64(sum(of.Failed)) / float64(n))
	}
	return nil
}

// FailedMuch reports whether more than a tenth failed.
func (d typePageData) FailedMuch() bool { part := d.FailedPart(); return part != nil && *part > 0.1 }

// Charts returns the charts of the range.
func (d typePageData) Charts() []chart {
	var all []chart
	if d.Visited == nil || sum(d.Past.Ended) > 0 {
		all = append(all, d.Past.chart("Ended, as workers report"))
	}
	if d.Visited != nil {
		all = append(all, d.Visited.chart("Visits, as the journal records"))
	}
	all = append(all, d.Took.chart("How long what succeeded took"), histogram("How much took how long", d.sketch), d.Waited.chart("How long it waited to start"))
	for _, l := range d.Levels {
		all = append(all, l.Chart())
	}
	return all
}

func showType(ctx context.Context, r *Request) (any, error) {
	of, err := r.rangeOf()
	if err != nil {
		return nil, err
	}
	tt, err := r.Reads.TaskType(ctx, r.PathValue("type"))
	if errors.Is(err, model.ErrUnknownTaskType) {
		return nil, Errorf(http.StatusNotFound, "There is no task type %q.", r.PathValue("type"))
	} else if err != nil {
		return nil, err
	}
	r.now.took.start(ctx)
	r.now.queues.start(ctx)
	r.now.groups.start(ctx)
	r.now.lanes.start(ctx)
	d := typePageData{Type: tt.Type, Description: tt.Description, Range: of.Name, Ranges: of.links(typePath(tt.Type)), Slowest: []slowRun{}}
	past := of.past(r.Now)
	err = r.inParallel("a task type",
		func() error { return r.pastOfType(ctx, &d, of, past) },
		func() (err error) {
			d.queuesOf(ctx, r, tt)
			d.Levels, err = r.levelsOfType(ctx, of, d.Queues)
			return err
		},
		func() (err error) {
			if d.Running, _, err = r.running(ctx, tt.Type, maxOfType); err != nil {
				return err
			}
			slowest, err := r.Reads.SlowestRuns(ctx, tt.Type, past.Since, maxOfType/2)
			for _, s := range slowest {
				d.Slowest = append(d.Slowest, slowRun{s.Task, s.Run, s.Runtime, s.Recorded})
			}
			return err
		})
	d.Settings = settingsOf(tt)
	return d, err
}

// pastOfType reads counts, durations, waiting times and failures of the ended work.
func (r *Request) pastOfType(ctx context.Context, d *typePageData, of pastRange, past ledger.Past) error {
	worker, wait := ledger.EndedKey{Source: ledger.EndedByWorker, Type: d.Type}, ledger.EndedKey{Source: ledger.EndedWait, Type: d.Type}
	keys := []ledger.EndedKey{worker, wait}
	d.Past = newSeries(past, of.steps)
	if visitType, loads := model.LoadedVisitType(d.Type); loads {
		d.Visited = newSeries(past, of.steps)
		keys = append(keys, ledger.EndedKey{Source: ledger.EndedByJournal, Type: visitType})
	}
	cells, err := r.Reads.EndedOf(ctx, past, keys...)
	if err != nil {
		return err
	}
	var ended, waited []ledger.EndedCell
	statuses, groups, seconds := map[string]int64{}, map[string]*errorGroup{}, 0.
	for _, c := range cells {
		failed := failures(c.Source, map[string]int64{c.Status: c.Pieces})
		switch c.Source {
		case ledger.EndedWait:
			waited = append(waited, c)
		case ledger.EndedByJournal:
			d.Visited.add(c.Step, c.Pieces, failed)
		default:
			d.Past.add(c.Step, c.Pieces, failed)
			statuses[c.Status] += c.Pieces
			if failed == 0 {
				ended, seconds = append(ended, c), seconds+c.Seconds
				continue
			}
			at := time.Unix(c.Step*int64(past.Step/time.Second), 0).UTC()
			g := groups[c.Exception]
			if g == nil {
				g = &errorGroup{Type: d.Type, Exception: c.Exception, First: at, Last: at, Past: newSeries(past, of.steps)}
				groups[c.Exception] = g
			}
			g.count(c.Step, failed, at, at)
		}
	}
	d.sketch, d.waited = ledger.SketchOf(ended), ledger.SketchOf(waited)
	d.Took, d.Waited = quantilesOf(past, of.steps, ended), quantilesOf(past, of.steps, waited)
	if n := d.sketch.Weight(); n > 0 {
		d.Average, d.P50, d.P95 = new(seconds/n), new(d.sketch.Quantile(0.5)), new(d.sketch.Quantile(0.95))
	}
	if d.waited.Weight() > 0 {
		d.WaitP50, d.WaitP95 = new(d.waited.Quantile(0.5)), new(d.waited.Quantile(0.95))
	}
	for s, n := range statuses {
		d.Statuses = append(d.Statuses, reason{s, n})
	}
	slices.SortFunc(d.Statuses, func(a, b reason) int { return strings.Compare(a.Exception, b.Exception) })
	d.Errors = mostFirst(groups)
	d.Errors = d.Errors[:min(len(d.Errors), maxOfType)]
	return r.addSamples(ctx, d.Errors)
}

// queuesOf finds the queues of a task type: its own, its priority queue, and its lanes.
func (d *typePageData) queuesOf(ctx context.Context, r *Request, tt model.TaskType) {
	rows, read := r.now.queues.part(ctx, r.Dashboard)
	d.Queues = slices.DeleteFunc(slices.Clone(rows), func(q status.Queue) bool { return q.TaskType != tt.Type })
	d.Queues = d.Queues[:min(len(d.Queues), maxOfType)]
	d.groupsAndLanes = r.groupsAndLanesOf(ctx, func(_, taskType string) bool {
		return taskType == tt.Type || taskType == model.PriorityLanes(tt.Type)
	})
	d.Groups = nil // the queue's page shows them
	d.Unread = append(d.Unread, unread(read)...)
}

// settingsOf lists the settings in the row of a task type.
func settingsOf(tt model.TaskType) []setting {
	all := []setting{{"Celery task", tt.BackendName}, {"Queue", tt.Queue()}}
	duration := func(name string, value *time.Duration) {
		if value != nil {
			all = append(all, setting{name, roughly(value.Seconds())})
		}
	}
	count := func(name string, value *int64, none string) {
		text := none
		if value != nil && *value > 0 {
			text = number(*value)
		}
		all = append(all, setting{name, text})
	}
	count("Messages in its queue, at most", tt.MaxQueueLength, "no limit")
	count("Retries", tt.NumRetries, "none")
	duration("Retried after", tt.RetryDelay)
	duration("Runs again after", tt.DefaultInterval)
	duration("After at least", tt.MinInterval)
	duration("After at most", tt.MaxInterval)
	if tt.BackoffFactor != nil {
		all = append(all, setting{"The time is divided by, each time", number(*tt.BackoffFactor)})
	}
	return all
}
