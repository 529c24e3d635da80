package dashboard

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

var (
	originsPage = Page{Path: "/origins", Title: "Origins", Menu: "Origins", Template: "origins.html", Query: []string{"url", "after", "visit_type", "lister"}, Data: showOrigins}
	originPage  = Page{Path: "/origin", Template: "origin.html", Query: []string{"url"}, Data: origin}
)

type originsData struct {
	Asked   string           `json:"asked"`  // the text in the search field
	Prefix  string           `json:"prefix"` // Asked, with https:// if it has no scheme
	Origins []db.FoundOrigin `json:"origins"`
	Next    *db.OriginPlace  `json:"next"`
}

func showOrigins(ctx context.Context, r *Request) (any, error) {
	d := originsData{Asked: r.Word("url")}
	if d.Prefix = d.Asked; d.Asked == "" {
		return d, nil
	}
	if !strings.Contains(d.Prefix, ":") {
		d.Prefix = "https://" + d.Prefix
	}
	var after *db.OriginPlace
	if place := r.Word("after"); place != "" {
		lister, err := uuid.Parse(r.Word("lister"))
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "lister must be the id of a lister.")
		}
		after = &db.OriginPlace{URL: place, VisitType: r.Word("visit_type"), Lister: lister}
	}
	var err error
	d.Origins, d.Next, err = r.Reads.FindOrigins(ctx, d.Prefix, after, listed)
	return d, err
}

type originData struct {
	URL          string                `json:"url"`
	Origins      []db.FoundOrigin      `json:"origins"`  // by visit type and lister
	Visits       []visitLine           `json:"visits"`   // the last visits, by visit type
	Failures     []failure             `json:"failures"` // the last failures of its loads; at most maxOfType
	Explanations []explain.Explanation `json:"explanations"`
	Unexplained  string                `json:"unexplained,omitempty"`
}

func (d originData) PageTitle() string { return "Origin" }

func origin(ctx context.Context, r *Request) (any, error) {
	word := r.Word("url")
	if word == "" {
		return originData{}, nil
	}
	var d originData
	for _, d.URL = range []string{r.URL.Query().Get("url"), word} { // an origin's URL may begin or end with a blank
		var err error
		if d.Origins, err = r.Reads.OriginsOf(ctx, d.URL, listed); err != nil {
			return nil, err
		}
		if len(d.Origins) > 0 {
			break
		}
	}
	if len(d.Origins) == 0 {
		return nil, Errorf(http.StatusNotFound, "No lister has an origin %q.", d.URL)
	}
	rows, err := r.Reads.FailuresOfOrigin(ctx, d.URL, maxOfType)
	if err != nil {
		return nil, err
	}
	d.Failures = failuresOf(rows)
	visits, err := r.Reads.VisitStretches(ctx, d.URL, maxOfType)
	if err != nil {
		return nil, err
	}
	for _, visitType := range slices.Sorted(maps.Keys(visits)) {
		d.Visits = append(d.Visits, lineOfVisits(visitType, visits[visitType]))
	}
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	if d.Explanations, err = r.gatherer().Origins(ctx, d.URL, ""); err != nil {
		d.Unexplained = r.unexplained(err)
	}
	return d, nil
}

// visitLine is a timeline of an origin's visits.
type visitLine struct {
	VisitType string                `json:"visit_type"`
	Stretches []ledger.VisitStretch `json:"stretches"` // the newest first
	Line      []stretch             `json:"-"`         // of the same
	Labels    []label               `json:"-"`
}

// lineOfVisits sets the positions of visits on a timeline. A stretch with an unknown beginning is drawn at its end.
func lineOfVisits(visitType string, stretches []ledger.VisitStretch) visitLine {
	l := visitLine{VisitType: visitType, Stretches: stretches}
	for _, s := range stretches {
		one := stretch{Kind: "ran", From: s.Last, To: s.Last}
		if s.Status != model.VisitSuccessful {
			one.Kind = "failed"
		}
		if s.First != nil && s.First.Before(s.Last) {
			one.From = *s.First
		}
		l.Line = append(l.Line, one)
	}
	l.Labels = timeline(l.Line)
	const least = 1 // per cent, so that a single visit is visible
	for i := range l.Line {
		s := &l.Line[i]
		s.Width = max(s.Width, least)
		s.X = min(s.X, 100-s.Width)
	}
	return l
}
