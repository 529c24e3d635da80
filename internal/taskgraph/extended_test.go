package taskgraph_test

import (
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/internal/testenv"
)

// The longest chain of an extended graph goes through tasks that wait for later ones, and so do the levels of its picture.
func TestChainsOfAnExtendedGraph(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval) values ('step', '', 'x', '1 day')")
	s, err := taskgraph.Submit(t.Context(), store, []byte(`{"tasks": [{"name": "list", "type": "step"}, {"name": "verify", "type": "step", "depends_on": ["list"]}]}`), time.Now())
	if err == nil {
		_, err = taskgraph.Extend(t.Context(), store, s.Graph, []byte(`{"tasks": [{"name": "load", "type": "step", "depends_on": ["list"]}], "add_dependencies": {"verify": ["load"]}}`), time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	g, err := taskgraph.Read(t.Context(), store, s.Graph, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var path []string
	for _, step := range g.Report(time.Now()).CriticalPath {
		path = append(path, step.Name)
	}
	if got := strings.Join(path, " "); got != "list load verify" {
		t.Errorf("the critical path is %s", got)
	}
	if levels := g.Draw().Levels; levels != 3 {
		t.Errorf("the picture has %d levels, want 3", levels)
	}
}
