package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/postgres"
)

// These calls are not in the Python scheduler. Graphs and reports are plain dicts, as in the files of "task graph
// submit" and the output of "task graph status"; a graph may be a text, too. An error of a graph is a ValueError
// with status 400.
var (
	submitGraph = define("task_graph/submit", operator, "submit_task_graph",
		"Stores a graph of tasks, all or nothing, and returns its number and those of its tasks by name.",
		only("graph", graphTexts), document[taskgraph.Submitted](),
		func(c *call, text string) (taskgraph.Submitted, error) {
			if err := c.holdGraph(text); err != nil {
				return taskgraph.Submitted{}, err
			}
			s, err := taskgraph.Submit(c, c.store, []byte(text), c.now)
			return s, badGraph(err)
		})

	extendGraph = define("task_graph/extend", operator, "extend_task_graph",
		"Adds tasks and dependencies to a graph, and removes dependencies, all or nothing; returns the numbers of the new tasks by name.",
		func(f *fields, a *graphExtension) {
			required(f, "graph_id", looseInteger, &a.graph)
			required(f, "graph", graphTexts, &a.text)
		}, document[taskgraph.Submitted](),
		func(c *call, a graphExtension) (taskgraph.Submitted, error) {
			if err := c.holdGraph(a.text); err != nil {
				return taskgraph.Submitted{}, err
			}
			s, err := taskgraph.Extend(c, c.store, a.graph, []byte(a.text), c.now)
			return s, badGraph(err)
		})

	checkGraph = define("task_graph/check", readers, "check_task_graph",
		"Checks a graph of tasks, stores nothing, and returns its size.",
		only("graph", graphTexts), document[taskgraph.Size](),
		func(c *call, text string) (taskgraph.Size, error) {
			if err := c.holdGraph(text); err != nil {
				return taskgraph.Size{}, err
			}
			size, err := taskgraph.Check(c, c.store, []byte(text), c.now)
			return size, badGraph(err)
		})

	listGraphs = define("task_graph/list", readers, "list_task_graphs",
		"Returns the newest graphs, or the one of a number, with how many of their tasks are in each state.",
		func(f *fields, a *graphList) {
			optional(f, "limit", looseInteger, &a.limit, 20)
			optional(f, "graph_id", integerOrNone, &a.graph)
		}, document[[]taskgraph.Line](), answerGraphs)

	graphStatus = define("task_graph/status", readers, "task_graph_status",
		"Returns the progress of a graph of tasks; none if there is no such graph.",
		only("graph_id", looseInteger), nullable(document[taskgraph.Report]()),
		func(c *call, graph int64) (*taskgraph.Report, error) {
			g, err := taskgraph.Read(c, c.store, graph, c.now)
			return found(g.Report(c.now), err, model.ErrUnknownGraph)
		})

	showGraph = define("task_graph/show", readers, "show_task_graph",
		"Draws a graph of tasks in the language of Graphviz (dot), or as an SVG picture.",
		func(f *fields, a *graphPicture) {
			required(f, "graph_id", looseInteger, &a.graph)
			optional(f, "format", literal("dot", "svg"), &a.format, "dot")
		}, text,
		func(c *call, a graphPicture) (string, error) {
			picture, err := taskgraph.Picture(c, c.store, a.graph, a.format, c.now)
			return picture, badGraph(err)
		})

	runningTasks = define("task_graph/running", readers, "running_graph_tasks",
		"Returns the numbers of a graph's tasks that were sent and are not known to have ended.",
		only("graph_id", looseInteger), integers,
		func(c *call, graph int64) ([]int64, error) {
			tasks, err := taskgraph.Running(c, c.store, graph)
			return tasks, badGraph(err)
		})

	cancelGraph = define("task_graph/cancel", operator, "cancel_task_graph",
		"Cancels all unsent tasks of a graph.",
		only("graph_id", looseInteger), null,
		func(c *call, graph int64) (none, error) {
			return none{}, badGraph(taskgraph.Cancel(c, c.store, graph, c.now))
		})

	retryGraph = define("task_graph/retry", operator, "retry_task_graph",
		"Retries the tasks of a graph that failed or couldn't run, and returns how many there are.",
		only("graph_id", looseInteger), integer,
		func(c *call, graph int64) (int64, error) {
			n, err := taskgraph.Retry(c, c.store, graph, c.now)
			return int64(n), badGraph(err)
		})

	releaseTask = define("task_graph/release", operator, "release_task",
		"Releases a task that waits only for itself; with force, whatever it waits for.",
		func(f *fields, a *taskToRelease) {
			required(f, "task_id", looseInteger, &a.task)
			optional(f, "force", truthful, &a.force)
		}, document[taskgraph.Released](),
		func(c *call, a taskToRelease) (taskgraph.Released, error) {
			r, err := taskgraph.Release(c, c.store, a.task, a.force, c.now)
			return r, badGraph(err)
		})
)

type graphList struct{ limit, graph int64 }

type graphExtension struct {
	graph int64
	text  string
}

type graphPicture struct {
	graph  int64
	format string
}

type taskToRelease struct {
	task  int64
	force bool
}

// document is a plain value, in JSON's types.
func document[V any]() *kind[V] {
	return &kind[V]{read: func(f *fields, value any) (v V) {
		if err := json.Unmarshal(f.json(value), &v); err != nil {
			f.fail(err)
		}
		return v
	}, write: func(f *fields, v *V) {
		text, err := json.Marshal(v)
		f.fail(err)
		f.out.json(text)
	}}
}

// graphTexts is a graph as a text in YAML or JSON, or as the value of such a text.
var graphTexts = &kind[string]{read: func(f *fields, value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	said, err := appendJSONValue(nil, value)
	if err != nil { // for instance a date: a mistake of who wrote the graph
		f.fail(badGraph(&taskgraph.RefusedError{Reason: fmt.Errorf("the graph can't be written as JSON: %w", err)}))
	}
	return string(said)
}, write: text.write}

// Bounds of a graph in a request. Its values take more memory than others: in JSON about 60 bytes, in YAML about
// 300.
const (
	maxGraphText   = 32 << 20 // bytes
	maxGraphValues = 2 << 20  // of all graphs in progress; one of YAML counts as yamlValue
	minGraphValues = maxGraphValues / 16
	yamlValue      = 8
)

// holdGraph waits for room for the values of a graph, until the call is answered.
func (c *call) holdGraph(text string) error {
	if len(text) > maxGraphText {
		return tooLarge("the graph has %d bytes, more than %d", len(text), maxGraphText)
	}
	count := func(of string) (n int) {
		for i := range len(of) {
			n += strings.Count(text, of[i:i+1])
		}
		return n
	}
	values := count(",[{")
	if !json.Valid([]byte(text)) {
		values = yamlValue * (values + count("\n:-?"))
	}
	if values > maxGraphValues {
		return tooLarge("the graph holds too many values; send it as JSON, which may hold %d, or in parts", maxGraphValues)
	}
	return c.room.holdGraph(c, int64(max(values, minGraphValues)))
}

func answerGraphs(c *call, a graphList) ([]taskgraph.Line, error) {
	if a.graph != 0 {
		g, err := c.store.Graph(c, a.graph)
		if errors.Is(err, model.ErrUnknownGraph) {
			return []taskgraph.Line{}, nil
		}
		return []taskgraph.Line{taskgraph.Line(g)}, err
	}
	if a.limit <= 0 {
		return nil, badGraph(fmt.Errorf("limit %d is not positive", a.limit))
	}
	lines, err := taskgraph.List(c, c.store, c.atMost(int(a.limit)))
	return fewOf(c, "limit", lines, err)
}

// badGraph is the client's error if err is one of a graph that it sent or named.
func badGraph(err error) error {
	_, dependency := errors.AsType[*graphs.DependencyError](err)
	_, refused := errors.AsType[*taskgraph.RefusedError](err)
	_, change := errors.AsType[*graphs.Error](err)
	_, value := errors.AsType[*postgres.RefusedError](err)
	if dependency || value || refused || change || errors.Is(err, model.ErrUnknownTaskType) || errors.Is(err, model.ErrUnknownGraph) {
		return &exception{class: "ValueError", args: []string{err.Error()}, status: http.StatusBadRequest}
	}
	return err
}

// The graph calls of a Client.

// CheckGraph checks a graph, in YAML or JSON, and returns its size.
func (c *Client) CheckGraph(ctx context.Context, text []byte) (taskgraph.Size, error) {
	return checkGraph.ask(ctx, c, string(text))
}

// SubmitGraph stores a graph, in YAML or JSON, all of it or nothing.
func (c *Client) SubmitGraph(ctx context.Context, text []byte) (taskgraph.Submitted, error) {
	return submitGraph.ask(ctx, c, string(text))
}

// ExtendGraph makes the changes of a text in YAML or JSON to a graph, all of them or none.
func (c *Client) ExtendGraph(ctx context.Context, graph int64, text []byte) (taskgraph.Submitted, error) {
	s, err := extendGraph.ask(ctx, c, graphExtension{graph, string(text)})
	return s, unknownGraph(err)
}

// Graphs lists the newest graphs.
func (c *Client) Graphs(ctx context.Context, limit int) ([]taskgraph.Line, error) {
	return listGraphs.ask(ctx, c, graphList{limit: int64(limit)})
}

// Graph returns a graph as Graphs does, or model.ErrUnknownGraph.
func (c *Client) Graph(ctx context.Context, graph int64) (taskgraph.Line, error) {
	lines, err := listGraphs.ask(ctx, c, graphList{limit: 1, graph: graph})
	if err != nil || len(lines) == 0 {
		return taskgraph.Line{}, cmp.Or(err, model.ErrUnknownGraph)
	}
	return lines[0], nil
}

// GraphReport returns the progress of a graph; model.ErrUnknownGraph if there is none.
func (c *Client) GraphReport(ctx context.Context, graph int64) (taskgraph.Report, error) {
	report, err := graphStatus.ask(ctx, c, graph)
	if err != nil || report == nil {
		return taskgraph.Report{}, cmp.Or(err, model.ErrUnknownGraph)
	}
	return *report, nil
}

// DrawGraph draws a graph: format is dot or svg.
func (c *Client) DrawGraph(ctx context.Context, graph int64, format string) (string, error) {
	picture, err := showGraph.ask(ctx, c, graphPicture{graph, format})
	return picture, unknownGraph(err)
}

// unknownGraph is model.ErrUnknownGraph if the server says that.
func unknownGraph(err error) error {
	if remote, ok := errors.AsType[*RemoteError](err); ok && strings.Contains(remote.Message, model.ErrUnknownGraph.Error()) {
		return model.ErrUnknownGraph
	}
	return err
}

// RunningGraphTasks returns the tasks of a graph that were sent and whose end is not recorded.
func (c *Client) RunningGraphTasks(ctx context.Context, graph int64) ([]int64, error) {
	return runningTasks.ask(ctx, c, graph)
}

// CancelGraph cancels all unsent tasks of a graph.
func (c *Client) CancelGraph(ctx context.Context, graph int64) error {
	_, err := cancelGraph.ask(ctx, c, graph)
	return unknownGraph(err)
}

// RetryGraph retries the failed tasks of a graph.
func (c *Client) RetryGraph(ctx context.Context, graph int64) error {
	_, err := retryGraph.ask(ctx, c, graph)
	return unknownGraph(err)
}

// ReleaseTask releases a task that waits only for itself; with force, also one that waits for other tasks.
func (c *Client) ReleaseTask(ctx context.Context, task int64, force bool) (taskgraph.Released, error) {
	return releaseTask.ask(ctx, c, taskToRelease{task, force})
}
