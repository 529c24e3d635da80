package taskgraph

import (
	"context"
	"time"

	"swh-scheduler/sql"
)

// paceWithin is the time over which the pace of a graph is taken.
const paceWithin = time.Hour

// Read reads a stored graph; scheduler.ErrUnknownGraph if there is none.
func Read(ctx context.Context, store *sql.Store, graph int64, now time.Time) (Graph, error) {
	g := Graph{}
	var err error
	if g.Summary, err = store.Graph(ctx, graph); err != nil {
		return Graph{}, err
	}
	if g.Tasks, err = store.GraphTasks(ctx, graph); err != nil {
		return Graph{}, err
	}
	if g.Edges, err = store.GraphEdges(ctx, graph); err != nil {
		return Graph{}, err
	}
	seen := map[string]bool{}
	types := []string{}
	for _, t := range g.Tasks {
		if !seen[t.Type] {
			seen[t.Type] = true
			types = append(types, t.Type)
		}
	}
	if g.Runtimes, err = store.Runtimes(ctx, types); err != nil {
		return Graph{}, err
	}
	g.Within = min(paceWithin, now.Sub(g.Summary.Submitted))
	if g.Ended, err = store.GraphPace(ctx, graph, now.Add(-g.Within)); err != nil {
		return Graph{}, err
	}
	return g, nil
}
