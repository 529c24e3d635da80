package taskgraph

import (
	"context"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

type Graph struct {
	Summary    graphs.Summary // without the numbers of tasks
	Tasks      []graphs.Task  // sorted: each comes after its dependencies
	Edges      []graphs.Edge
	Runtimes   map[string]time.Duration // by task type, if known
	Ends       map[int64]time.Time      // by task: when its last run ended
	PaceWindow time.Duration            // the period until now over which the pace is measured
}

// paceWithin is the longest period over which the pace of a graph is measured.
const paceWithin = time.Hour

// Read reads a stored graph. It returns model.ErrUnknownGraph if there is none.
func Read(ctx context.Context, store *db.Store, graph int64, now time.Time) (g Graph, err error) {
	if g.Summary, err = store.GraphHead(ctx, graph); err != nil {
		return Graph{}, err
	}
	if g.Tasks, err = store.GraphTasks(ctx, graph); err != nil {
		return Graph{}, err
	}
	if g.Edges, err = store.GraphEdges(ctx, graph); err != nil {
		return Graph{}, err
	}
	g.inOrder()
	types := []string{}
	for _, t := range g.Tasks {
		types = append(types, t.Type)
	}
	slices.Sort(types)
	if g.Runtimes, err = store.Runtimes(ctx, slices.Compact(types)); err != nil {
		return Graph{}, err
	}
	g.PaceWindow = min(paceWithin, now.Sub(g.Summary.Submitted))
	g.Ends, err = store.GraphEnds(ctx, graph)
	return g, err
}

// inOrder moves tasks behind their dependencies. An extension adds dependencies on tasks with higher numbers.
func (g *Graph) inOrder() {
	d := g.dependencies()
	ordered := make([]graphs.Task, 0, len(g.Tasks))
	begun, placed := make([]int, len(g.Tasks)), make([]bool, len(g.Tasks)) // begun counts the dependencies that were followed
	for i := range g.Tasks {
		for path := []int{i}; len(path) > 0; {
			at := path[len(path)-1]
			switch {
			case placed[at]:
				path = path[:len(path)-1]
			case begun[at] < len(d.inside[at]):
				path = append(path, d.inside[at][begun[at]])
				begun[at]++
			default:
				placed[at] = true
				ordered = append(ordered, g.Tasks[at])
			}
		}
	}
	g.Tasks = ordered
}

// settleTime bounds the time for which a command settles graphs, roughly.
const settleTime = time.Second

// Settle applies the pending changes of graphs as a runner does, for about settleTime: those of the given graph
// first, then any. It waits for locks of other processes that do the same. A runner applies the rest.
func Settle(ctx context.Context, store *db.Store, graph int64) error {
	const wait = 50 * time.Millisecond
	own, after := true, int64(math.MinInt64)
	for began := time.Now(); time.Since(began) < settleTime; {
		var round graphs.Round
		var err error
		if own {
			var last int64
			if last, round, err = store.AdvanceGraph(ctx, graph, after, time.Now()); last != 0 {
				after = last
			} else {
				own = round.More || round.Waits
			}
		} else if round, err = store.AdvanceGraphs(ctx, time.Now()); err == nil && !round.More && !round.Waits {
			return nil
		}
		if err == nil && round.Waits && !round.More {
			err = service.Sleep(ctx, wait)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
