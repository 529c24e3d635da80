package rpc

import (
	"encoding/json"
	"errors"
	"net/http"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql"
)

// graphEndpoints are calls that the peer doesn't have. Graphs and reports are
// plain dicts, as in the files of "task graph submit" and the output of "task
// graph status". What is wrong with a graph is a ValueError with status 400.
var graphEndpoints = []endpoint{
	{"task_graph/submit", signature{"submit_task_graph", []string{"graph"}, nil},
		"Stores a graph of tasks, all or nothing, and returns its number and those of its tasks by name.", submitGraph},
	{"task_graph/status", signature{"task_graph_status", []string{"graph_id"}, nil},
		"Says how far a graph of tasks is; none if there is no such graph.", graphStatus},
	{"task_graph/cancel", signature{"cancel_task_graph", []string{"graph_id"}, nil},
		"Has what of a graph was not sent never run.", cancelGraph},
	{"task_graph/retry", signature{"retry_task_graph", []string{"graph_id"}, nil},
		"Takes up again what of a graph has failed, and returns how many tasks that is.", retryGraph},
}

func submitGraph(c *call) error {
	value, _ := c.args.get("graph")
	text, err := appendJSONValue(nil, value)
	if err != nil {
		return err
	}
	g, err := taskgraph.Parse(text, c.now)
	if err != nil {
		return badGraph(err)
	}
	submitted, err := c.store.SubmitGraph(c, g, c.now)
	if err != nil {
		if _, ok := errors.AsType[*sql.DependencyError](err); ok || errors.Is(err, scheduler.ErrUnknownTaskType) {
			return badGraph(err)
		}
		return err
	}
	c.out.openDict(2)
	integerField(c.out, "graph", submitted.ID)
	c.out.key("tasks")
	c.out.openDict(len(g.Tasks))
	for i, t := range g.Tasks {
		integerField(c.out, t.Name, submitted.Tasks[i])
	}
	c.out.closeDict()
	c.out.closeDict()
	return nil
}

// badGraph says what is wrong with something that the client sent.
func badGraph(err error) error {
	return &exception{class: "ValueError", args: []any{err.Error()}, status: http.StatusBadRequest}
}

// unknownGraph is that of a graph that is not there.
func unknownGraph(err error) error {
	if errors.Is(err, scheduler.ErrUnknownGraph) {
		return badGraph(err)
	}
	return err
}

func graphStatus(c *call) error {
	graph := c.args.integer("graph_id", 0)
	if c.args.err != nil {
		return c.args.err
	}
	g, err := taskgraph.Read(c, c.store, graph, c.now)
	if errors.Is(err, scheduler.ErrUnknownGraph) {
		c.out.null()
		return nil
	}
	if err != nil {
		return err
	}
	report, err := json.Marshal(g.Report(c.now))
	if err == nil {
		c.out.json(report)
	}
	return err
}

func cancelGraph(c *call) error {
	graph := c.args.integer("graph_id", 0)
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return unknownGraph(c.store.CancelGraph(c, graph, c.now))
}

func retryGraph(c *call) error {
	graph := c.args.integer("graph_id", 0)
	if c.args.err != nil {
		return c.args.err
	}
	n, err := c.store.RetryGraph(c, graph)
	c.out.integer(int64(n))
	return unknownGraph(err)
}
