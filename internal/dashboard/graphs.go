package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
)

var (
	graphsPage = Page{Path: "/graphs", Title: "Graphs", Menu: "Graphs", Template: "graphs.html", Fragments: []string{"graphs"}, Data: graphs}
	graphPage  = Page{Path: "/graphs/{id}", Template: "graph.html", Data: graph}
)

type graphsData struct {
	Graphs []taskgraph.Line `json:"graphs"` // the newest ones
}

func graphs(ctx context.Context, r *Request) (any, error) {
	lines, err := taskgraph.List(ctx, r.Reads, listed)
	return graphsData{lines}, err
}

type graphData struct {
	taskgraph.Report
	Counts  []stateCount  `json:"-"`
	Picture template.HTML `json:"-"`
}

type stateCount struct {
	State db.GraphState
	Tasks int
}

func (d graphData) PageTitle() string { return fmt.Sprintf("Graph %d", d.Graph) }

func graph(ctx context.Context, r *Request) (any, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, Errorf(http.StatusNotFound, "%s is not the number of a graph.", r.PathValue("id"))
	}
	g, err := taskgraph.Read(ctx, r.Reads, id, r.Now)
	if errors.Is(err, model.ErrUnknownGraph) {
		return nil, Errorf(http.StatusNotFound, "There is no graph %d.", id)
	}
	if err != nil {
		return nil, err
	}
	d := graphData{Report: g.Report(r.Now), Picture: template.HTML(g.Draw().SVG())} // its texts are escaped for XML
	for _, state := range db.GraphStates {
		if n := d.States[state]; n > 0 {
			d.Counts = append(d.Counts, stateCount{state, n})
		}
	}
	return d, nil
}
