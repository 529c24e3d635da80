package explain

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/graphs"
)

// A task in a chain names the first task that blocks it, and what that waits for. Between the end of its last dependency
// and its release it waits for the release, without a date.
func TestFirstThatBlocks(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('t', '', 't')",
		`insert into task (id, type, arguments, next_run, status, policy) select n, 't', '{}', case n when 1 then now() else scheduler_go.never() end, 'next_run_not_scheduled', 'oneshot' from generate_series(1, 1500) n`,
		"insert into scheduler_go.graphs (name, submitted) values ('g', now())",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 1, n, 'n' || n, false, 1 from generate_series(1, 1500) n",
		"insert into scheduler_go.graph_edges (task, depends_on) select n, n - 1 from generate_series(2, 1500) n union all values (5, 3)",
	)
	x := &Gatherer{Store: store, Config: new(config.Config), Log: slog.New(slog.DiscardHandler), Now: time.Now(), NoBroker: errors.New("no broker")}
	explained := func(id int64) Explanation {
		t.Helper()
		e, err := x.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	const first = "The first that blocks it is task 1 (n1 of graph 1), "
	says(t, explained(2), []string{"It waits for task 1 (n1 of graph 1) to be completed."}, []string{"The first that blocks"})
	says(t, explained(4), []string{"It waits for task 3 (n3 of graph 1) to be completed.", first + "2 links before task 3: it is ready, and not sent yet."}, nil)
	if text := strings.Join(explained(5).Reasons, " "); strings.Count(text, first) != 1 { // by two ways
		t.Error(text)
	}
	says(t, explained(1500), []string{"Task 1499 waits through a chain of more than 1000 tasks."}, nil)

	testenv.Exec(t, store.Pool(), "update task set status = 'next_run_scheduled' where id = 1; insert into task_run (task, backend_id, status, scheduled) values (1, 'x', 'scheduled', now())")
	says(t, explained(4), []string{first + "2 links before task 3: it was sent, and no worker has begun it."}, nil)
	testenv.Exec(t, store.Pool(), "update task_run set status = 'started', started = now()")
	says(t, explained(3), []string{first + "1 link before task 2: a worker runs it."}, nil)

	testenv.Exec(t, store.Pool(), "update task set status = 'completed' where id = 1")
	e := explained(2)
	says(t, e, []string{"It waits for its release in graph 1, where it is called n2: all that it depends on has ended.", "No start-runner of this program is connected"}, []string{"9999"})
	if e.When == nil || !e.When.Equal(x.Now) {
		t.Errorf("when: %v", e.When)
	}
	says(t, explained(4), []string{"The first that blocks it is task 2 (n2 of graph 1), 1 link before task 3: it is to be released"}, nil)

	// The release commits between the reading of the task and that of its graph.
	task := Task{
		Task:  model.Task{ID: 2, Status: model.TaskNotScheduled, NextRun: graphs.Never.In(time.FixedZone("", 3600))},
		Graph: &graphs.Task{Graph: 1, Name: "n2", State: model.GraphReady},
	}
	says(t, task.Explain(x.Now), []string{"It waits for its release"}, []string{"9999"})
}
