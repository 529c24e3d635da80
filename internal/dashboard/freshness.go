package dashboard

import (
	"context"
	"net/http"
	"strconv"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
)

var freshnessPage = Page{
	Path: "/freshness", Title: "Freshness and forecast", Menu: "Freshness", Template: "freshness.html",
	Query: []string{"visit_type", "workers", "by", "q", "range"}, Fragments: []string{"forecast", "types", "over-time", "listers"}, Data: showFreshness,
}

// freshnessData is status.Freshness, as `swh-scheduler forecast` prints it, and its figures over time.
type freshnessData struct {
	status.Freshness
	Range  string      `json:"range"`
	Ranges []rangeLink `json:"-"`
	Levels []levels    `json:"over_time"`

	AskedWorkers, AskedBy, VisitType, Word string `json:"-"`
}

// Stopped reports whether a lister has stopped.
func (freshnessData) Stopped(l status.ListerFreshness) bool {
	return l.State == freshness.ListingStopped
}

// IsLate reports whether a lister has stopped or is behind.
func (d freshnessData) IsLate(l status.ListerFreshness) bool {
	return d.Stopped(l) || l.State == freshness.ListingBehind
}

// maxAskedWorkers is the largest number of workers in a question for a forecast.
const maxAskedWorkers = 1_000_000

func showFreshness(ctx context.Context, r *Request) (any, error) {
	d := freshnessData{AskedWorkers: r.Word("workers"), AskedBy: r.Word("by"), VisitType: r.Word("visit_type"), Word: r.Word("q")}
	filter := status.FreshnessFilter{VisitType: d.VisitType, Word: d.Word}
	if d.AskedWorkers != "" {
		n, err := strconv.Atoi(d.AskedWorkers)
		if err != nil || n < 1 || n > maxAskedWorkers {
			return nil, Errorf(http.StatusBadRequest, "%q is not a number of workers from 1 to 1000000.", d.AskedWorkers)
		}
		filter.Workers = n
	}
	if d.AskedBy != "" {
		by, err := pytext.ParseDate(d.AskedBy, r.Now)
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "%s", err)
		}
		filter.By = by
	}
	of, err := r.rangeOf()
	if err != nil {
		return nil, err
	}
	d.Range, d.Ranges = of.Name, of.links("/freshness", "visit_type", d.VisitType, "workers", d.AskedWorkers, "by", d.AskedBy, "q", d.Word)
	d.Freshness, err = status.ReadFreshness(ctx, r.Reads, r.Config, filter)
	if err != nil {
		return nil, err
	}
	d.Types = d.Types[:min(len(d.Types), maxRows)]
	d.Levels, err = r.typeLevels(ctx, of, d.Types)
	return d, err
}
