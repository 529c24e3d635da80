package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A graph's timeline has past runs, current runs until now, and the expected runs of the critical path, in order of
// time. Behind the critical path are the tasks that it waited for, and other tasks. It omits tasks without a past or
// expected run.
func TestTimelineOfAGraph(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into task (id, type, arguments, next_run, status, policy) select n, 'load-git', '{}', scheduler_go.never(),
			(array['completed', 'disabled', 'next_run_scheduled', 'next_run_not_scheduled', 'next_run_not_scheduled'])[n]::task_status, 'oneshot' from generate_series(1, 5) n`,
		"insert into scheduler_go.graphs (name, submitted) values ('g', now() - interval '2 hours')",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 1, n, (array['list', 'beside', 'load', 'index', 'short'])[n], false, 0 from generate_series(1, 5) n",
		"insert into scheduler_go.graph_edges (task, depends_on) values (2, 1), (3, 1), (4, 3), (5, 1)",
		"insert into scheduler_go.run_durations (run, type, runtime, recorded) select n, 'load-git', 3600, now() from generate_series(1, 20) n",
		`insert into task_run (task, status, scheduled, started, ended) values
			(1, 'failed', now() - interval '120 min', now() - interval '110 min', now() - interval '100 min'),
			(1, 'eventful', now() - interval '90 min', now() - interval '80 min', now() - interval '70 min'),
			(2, 'failed', now() - interval '60 min', now() - interval '55 min', now() - interval '50 min'),
			(3, 'started', now() - interval '40 min', now() - interval '30 min', null)`,
		// Triggers of the runs change their tasks.
		"update task set status = (array['completed', 'disabled', 'next_run_scheduled', 'next_run_not_scheduled', 'next_run_not_scheduled'])[id]::task_status",
	)
	var page struct {
		Timeline []struct {
			Name     string
			Critical bool
			Line     []struct{ Kind string }
		}
	}
	if err := json.Unmarshal([]byte(s.get("/graphs/1", "Accept", "application/json")), &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range page.Timeline {
		text := fmt.Sprint(row.Name, " ", row.Critical)
		for _, part := range row.Line {
			text += " " + part.Kind
		}
		got = append(got, text)
	}
	const want = `list true queued failed queued ran now
beside false queued failed now
load true queued ran expected now
index true expected now`
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s.has("/graphs/1", "Without 1 other task.", "failed after 10 min, queued 10 min, ran 10 min</td>", `<rect class="now"`, ">list</a> <strong>critical</strong>")
	s.exec("update task set status = 'completed'", "update task_run set status = 'eventful', ended = now() where id = 4")
	s.has("/graphs/1", "The critical path is the chain of tasks that led to the last end.", ">load</a> <strong>critical</strong>", ">beside</a></th>")
}
