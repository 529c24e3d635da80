package dashboard

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

var overviewPage = Page{Path: "/", Title: "Overview", Menu: "Overview", Template: "overview.html", Fragments: []string{"ready"}, Data: overview}

// overviewData is what is going on.
type overviewData struct {
	Ready []readyTasks `json:"ready"`
}

type readyTasks struct {
	Type     string    `json:"type"`
	Priority string    `json:"priority"`
	Tasks    int64     `json:"tasks"`
	Oldest   time.Time `json:"oldest"`
}

func overview(ctx context.Context, r *Request) (any, error) {
	figures, err := r.Reads.Figures(ctx, r.Now)
	if err != nil {
		return nil, err
	}
	return overviewData{Ready: readyOf(figures)}, nil
}

func readyOf(f db.Figures) []readyTasks {
	rows := []readyTasks{}
	for _, t := range f.Ready {
		rows = append(rows, readyTasks{t.Type, t.Priority, t.Tasks, t.Oldest})
	}
	return rows
}
