package rpc

import (
	"encoding/json"
	"errors"
	"net/http"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
)

// Calls that the peer doesn't have. Graphs and reports are plain dicts, as in the
// files of "task graph submit" and the output of "task graph status". What is
// wrong with a graph is a ValueError with status 400.
var (
	submitGraph = define("task_graph/submit", "submit_task_graph",
		"Stores a graph of tasks, all or nothing, and returns its number and those of its tasks by name.",
		only("graph", anything), submittedGraphs, storeGraph)

	graphStatus = define("task_graph/status", "task_graph_status",
		"Returns the progress of a graph of tasks; none if there is no such graph.",
		only("graph_id", looseInteger), orNil(jsonObject),
		func(c *call, graph int64) (json.RawMessage, error) {
			g, err := taskgraph.Read(c, c.store, graph, c.now)
			switch {
			case errors.Is(err, model.ErrUnknownGraph):
				return nil, nil
			case err != nil:
				return nil, err
			}
			return json.Marshal(g.Report(c.now))
		})

	cancelGraph = define("task_graph/cancel", "cancel_task_graph",
		"Cancels all unsent tasks of a graph.",
		only("graph_id", looseInteger), null,
		func(c *call, graph int64) (none, error) {
			return none{}, unknownGraph(c.store.CancelGraph(c, graph, c.now))
		})

	retryGraph = define("task_graph/retry", "retry_task_graph",
		"Retries the failed tasks of a graph, and returns how many there are.",
		only("graph_id", looseInteger), integer,
		func(c *call, graph int64) (int64, error) {
			n, err := c.store.RetryGraph(c, graph)
			return int64(n), unknownGraph(err)
		})
)

// submittedGraph is the number of a graph, and those of its tasks.
type submittedGraph struct {
	number int64
	tasks  []db.NewGraphTask
	ids    []int64
}

var submittedGraphs = dictOf(func(f *fields, g *submittedGraph) {
	required(f, "graph", integer, &g.number)
	required(f, "tasks", graphTasks, g)
})

var graphTasks = &kind[submittedGraph]{write: func(f *fields, g *submittedGraph) {
	f.out.openDict()
	for i, t := range g.tasks {
		write(f, t.Name, integer, &g.ids[i])
	}
	f.out.closeDict()
}}

func storeGraph(c *call, value any) (s submittedGraph, err error) {
	text, err := appendJSONValue(nil, value)
	if err != nil {
		return s, err
	}
	g, err := taskgraph.Parse(text, c.now)
	if err != nil {
		return s, badGraph(err)
	}
	submitted, err := c.store.SubmitGraph(c, g, c.now)
	if _, ok := errors.AsType[*db.DependencyError](err); ok || errors.Is(err, model.ErrUnknownTaskType) {
		return s, badGraph(err)
	}
	if err != nil {
		return s, err
	}
	return submittedGraph{submitted.ID, g.Tasks, submitted.Tasks}, nil
}

// badGraph is the error of a graph that the client sent.
func badGraph(err error) error {
	return &exception{class: "ValueError", args: []string{err.Error()}, status: http.StatusBadRequest}
}

// unknownGraph is the error of a graph that is not there.
func unknownGraph(err error) error {
	if errors.Is(err, model.ErrUnknownGraph) {
		return badGraph(err)
	}
	return err
}
