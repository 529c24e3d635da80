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
	Query: []string{"visit_type", "workers", "by", "q"}, Fragments: []string{"forecast", "types", "listers"}, Data: showFreshness,
}

// freshnessData is status.Freshness, as swh-scheduler forecast prints it, with what was asked for.
type freshnessData struct {
	status.Freshness
	AskedWorkers, AskedBy, VisitType, Word string `json:"-"`
}

// Stopped reports whether a lister has stopped.
func (freshnessData) Stopped(l status.ListerFreshness) bool {
	return l.State == freshness.ListingStopped
}

// Late reports whether a lister has stopped or is behind.
func (d freshnessData) IsLate(l status.ListerFreshness) bool {
	return d.Stopped(l) || l.State == freshness.ListingBehind
}

// maxAskedWorkers is how many workers a forecast can be asked for.
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
		by, _, err := pytext.ParseDate(d.AskedBy, r.Now)
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "%s", err)
		}
		filter.By = by
	}
	var err error
	d.Freshness, err = status.ReadFreshness(ctx, r.Reads, r.Config, filter)
	d.Types = d.Types[:min(len(d.Types), maxRows)]
	return d, err
}
