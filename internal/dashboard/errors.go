package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

var errorsPage = Page{Path: "/errors", Title: "Errors", Menu: "Errors", Template: "errors.html", Query: []string{"range", "type", "exception"}, Fragments: []string{"errors", "visits", "failures"}, Data: showErrors}

// noException replaces an empty exception in addresses.
const noException = "(none)"

// errorPath returns the address of the failures of a task type by an exception, from the base.
func errorPath(taskType, exception string) string {
	return address("/errors", "type", taskType, "exception", cmp.Or(exception, noException))
}

type errorsData struct {
	Range     string       `json:"range"`
	Ranges    []rangeLink  `json:"-"`
	Type      string       `json:"type"`      // of the group, or of all groups; "": all types
	Exception string       `json:"exception"` // of the group; "": all exceptions
	Part      part         `json:"read"`
	Errors    []errorGroup `json:"errors"` // most failures first; at most maxRows
	Found     int          `json:"found"`
	Visits    []errorGroup `json:"visits"` // failed visits by visit type, as the journal records; without exceptions
	// Failures are the last failures of the group, if the address names one.
	Failures []failure   `json:"failures"`
	Filter   string      `json:"-"` // the filter for the tasks of the group
	Actions  []operation `json:"-"`
}

// Group reports whether the address names a group.
func (d errorsData) Group() bool { return d.Type != "" && d.Exception != "" }

func (d errorsData) PageTitle() string {
	switch {
	case d.Group():
		return "Errors: " + d.Type + " by " + errorGroup{Exception: d.Exception}.Words()
	case d.Type != "":
		return "Errors of " + d.Type
	}
	return "Errors"
}

// Link returns the page of the exception of a group.
func (g errorGroup) Link() string { return errorPath(g.Type, g.Exception) }

// Words returns the exception in words.
func (g errorGroup) Words() string {
	switch g.Exception {
	case "", noException:
		return "no exception"
	case ledger.OtherExceptions:
		return "other exceptions"
	}
	return g.Exception
}

// errorGroup is the failures of a type with one class of exceptions.
type errorGroup struct {
	Type      string    `json:"type"`
	Exception string    `json:"exception"` // "": none was reported
	Count     int64     `json:"count"`     // in the range
	First     time.Time `json:"first"`     // within two years; exact to the minute for the last three hours, otherwise to the day
	Last      time.Time `json:"last"`
	Past      *series   `json:"past"`
	Sample    *failure  `json:"sample"` // the last failure; nil if none is stored
}

// count adds the failures of a step. first and last are the times of the first and last one.
func (g *errorGroup) count(step, pieces int64, first, last time.Time) {
	g.Count += pieces
	g.Past.add(step, pieces, pieces)
	if first.Before(g.First) {
		g.First = first
	}
	if last.After(g.Last) {
		g.Last = last
	}
}

// failure is a failure that was recorded.
type failure struct {
	At        time.Time `json:"at"`
	Message   string    `json:"message"`
	Worker    string    `json:"worker"`
	Task      int64     `json:"task"`       // 0: a visit
	VisitType string    `json:"visit_type"` // "" unless the task is a load
	URL       string    `json:"url"`        // of the origin; "" if it is unknown
}

func failureOf(f ledger.FoundFailure) failure {
	return failure{
		At: f.At, Message: f.Message, Worker: f.Worker,
		Task: *cmp.Or(f.Task, new(int64)), VisitType: *cmp.Or(f.VisitType, new("")), URL: *cmp.Or(f.URL, new("")),
	}
}

func failuresOf(rows []ledger.FoundFailure) []failure {
	all := []failure{}
	for _, f := range rows {
		all = append(all, failureOf(f))
	}
	return all
}

// pastErrors are the failures in a range.
type pastErrors struct {
	past   ledger.Past
	groups []errorGroup // without samples, most failures first
	visits []errorGroup
}

// readErrors reads the failures in a range.
func (d *Dashboard) readErrors(ctx context.Context, r pastRange) (e pastErrors, err error) {
	e.past = r.past(d.Reads.Now())
	rows, err := d.Reads.FailureSteps(ctx, e.past)
	if err != nil {
		return e, err
	}
	classes, err := d.Reads.Errors(ctx)
	if err != nil {
		return e, err
	}
	type key struct{ typ, exception string }
	known := map[key]ledger.ErrorClass{}
	for _, c := range classes {
		known[key{c.Type, c.Exception}] = c
	}
	groups, visits := map[key]*errorGroup{}, map[key]*errorGroup{}
	for _, row := range rows {
		in, k := groups, key{row.Type, row.Exception}
		if row.Source == ledger.EndedByJournal {
			in = visits
		}
		if in[k] == nil {
			in[k] = &errorGroup{Type: k.typ, Exception: k.exception, First: row.First, Last: row.Last, Past: newSeries(e.past, r.steps)}
		}
		in[k].count(row.Step, row.Pieces, row.First, row.Last)
	}
	hours := d.Reads.Now().Add(-3 * time.Hour)
	for k, g := range groups {
		if c, ok := known[k]; ok {
			if g.First = c.First; g.Last.Before(hours) {
				g.Last = c.Last
			}
		}
	}
	e.groups, e.visits = mostFirst(groups), mostFirst(visits)
	return e, nil
}

func mostFirst[K comparable](groups map[K]*errorGroup) []errorGroup {
	all := []errorGroup{}
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b errorGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Type, b.Type), strings.Compare(a.Exception, b.Exception))
	})
	return all
}

func showErrors(ctx context.Context, r *Request) (any, error) {
	of, err := r.rangeOf()
	if err != nil {
		return nil, err
	}
	d := errorsData{Range: of.Name, Type: r.Word("type"), Exception: r.Word("exception"), Errors: []errorGroup{}, Visits: []errorGroup{}, Failures: []failure{}}
	if d.Exception != "" && d.Type == "" {
		return nil, refuseWord(r.URL.Query(), "exception", "together with a type")
	}
	d.Ranges = of.links("/errors", "type", d.Type, "exception", d.Exception)
	read, part := r.now.errors[of.Name].part(ctx, r.Dashboard)
	d.Part = part
	exception := strings.TrimPrefix(d.Exception, noException)
	for _, g := range read.groups {
		if d.Type == "" || g.Type == d.Type && (d.Exception == "" || g.Exception == exception) {
			d.Errors = append(d.Errors, g)
		}
	}
	d.Found = len(d.Errors)
	d.Errors = d.Errors[:min(d.Found, maxRows)]
	if d.Group() {
		d.Filter = url.Values{"type": {d.Type}, "exception": {d.Exception}}.Encode()
		for _, o := range taskOperations {
			if o.Word == "respawn" || o.Word == "disable" {
				d.Actions = append(d.Actions, o)
			}
		}
		rows, err := r.Reads.LastFailures(ctx, d.Type, exception, listed)
		d.Failures = failuresOf(rows)
		return d, err
	}
	visitType, loads := model.LoadedVisitType(d.Type)
	for _, v := range read.visits {
		if d.Type == "" || loads && v.Type == visitType {
			d.Visits = append(d.Visits, v)
		}
	}
	d.Visits = d.Visits[:min(len(d.Visits), maxRows)]
	return d, r.addSamples(ctx, d.Errors)
}

// addSamples adds the last failure of each group.
func (r *Request) addSamples(ctx context.Context, groups []errorGroup) error {
	var types, exceptions []string
	for _, g := range groups {
		types, exceptions = append(types, g.Type), append(exceptions, g.Exception)
	}
	samples, err := r.Reads.SampleFailures(ctx, types, exceptions)
	for _, s := range samples {
		for i := range groups {
			if groups[i].Type == s.Type && groups[i].Exception == s.Exception {
				groups[i].Sample = new(failureOf(s))
			}
		}
	}
	return err
}
