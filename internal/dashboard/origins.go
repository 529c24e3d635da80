package dashboard

import (
	"context"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"swh-scheduler/internal/explain"
	"swh-scheduler/sql/db"
)

var (
	originsPage = Page{Path: "/origins", Title: "Origins", Menu: "Origins", Template: "origins.html", Query: []string{"url", "after", "visit_type", "lister"}, Data: showOrigins}
	originPage  = Page{Path: "/origin", Template: "origin.html", Query: []string{"url"}, Data: origin}
)

type originsData struct {
	Asked   string           `json:"asked"`  // what somebody looks for
	Prefix  string           `json:"prefix"` // with https:// before it if it had no scheme
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
	Origins      []db.FoundOrigin      `json:"origins"` // by visit type and lister
	Explanations []explain.Explanation `json:"explanations"`
	Unexplained  string                `json:"unexplained,omitempty"`
}

func (d originData) PageTitle() string { return "Origin" }

func origin(ctx context.Context, r *Request) (any, error) {
	d := originData{URL: r.Word("url")}
	if d.URL == "" {
		return d, nil
	}
	var err error
	if d.Origins, err = r.Reads.OriginsOf(ctx, d.URL, listed); err != nil {
		return nil, err
	}
	if len(d.Origins) == 0 {
		return nil, Errorf(http.StatusNotFound, "No lister has an origin %q.", d.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	if d.Explanations, err = r.gatherer().Origins(ctx, d.URL, ""); err != nil {
		d.Unexplained = r.unexplained(err)
	}
	return d, nil
}
