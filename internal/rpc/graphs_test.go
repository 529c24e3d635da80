package rpc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A graph is submitted, watched, cancelled and retried over HTTP, in either
// format; what is wrong with one is a 400 that says what; and the Python scheduler's client
// reads tasks that wait.
func TestGraphs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn)
	store := openStore(t, dsn)
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('step', '', 'swh.test.Step')")
	stored := func(query string, args ...any) string {
		t.Helper()
		return testenv.Value[string](t, store.Pool(), fmt.Sprintf(query, args...))
	}
	call := func(path, body string, want int) (answer map[string]any) {
		t.Helper()
		response, text := post(t, url+"/task_graph/"+path, mimeJSON, []byte(body))
		if response.StatusCode != want {
			t.Fatalf("%s: %s, want %d: %s", path, response.Status, want, text)
		}
		if want == http.StatusOK && json.Unmarshal(text, &answer) != nil && string(text) != "null" && strings.Trim(string(text), "0123456789") != "" {
			t.Fatalf("%s answers %s", path, text)
		}
		return answer
	}
	const graph = `{"graph": {"name": "g", "tasks": [
		{"name": "b", "type": "step", "depends_on": ["a"], "kwargs": {"x": [1.5, null]}}, {"name": "a", "type": "step"}]}}`
	submitted := call("submit", graph, http.StatusOK)
	tasks, _ := submitted["tasks"].(map[string]any)
	if submitted["graph"] != 1.0 || len(tasks) != 2 || tasks["b"].(float64) <= tasks["a"].(float64) {
		t.Errorf("submit answers %v", submitted)
	}
	states := func() any { return call("status", `{"graph_id": 1}`, http.StatusOK)["states"] }
	if got := fmt.Sprint(states()); !strings.Contains(got, "ready:1") || !strings.Contains(got, "waiting:1") {
		t.Errorf("states: %s", got)
	}
	if got := call("status", `{"graph_id": 99}`, http.StatusOK); got != nil {
		t.Errorf("a graph that is not there: %v", got)
	}
	// Submitted again with its key, a graph is the same; another one is refused.
	const keyed = `{"graph": {"key": "k", "tasks": [{"name": "x", "type": "step"}, {"type": "step", "name": "y", "depends_on": ["x"],
		"kwargs": {"one": "{{ task.x.id }}", "text": ["is {{task.x.id}}, {{ no }}"], "big": 1180591620717411303424}}]}}`
	first := call("submit", keyed, http.StatusOK)
	again := call("submit", strings.ReplaceAll(keyed, `"type": "step", "name": "y"`, `"name": "y", "type": "step"`), http.StatusOK)
	if again["known"] != true || first["known"] != false || fmt.Sprint(again["graph"], again["tasks"]) != fmt.Sprint(first["graph"], first["tasks"]) {
		t.Errorf("submitted again: %v, first: %v", again, first)
	}
	call("submit", strings.ReplaceAll(keyed, `"one"`, `"two"`), http.StatusBadRequest)
	graphID := fmt.Sprint(first["graph"])
	ids, _ := first["tasks"].(map[string]any)
	row := stored("select arguments::text from task where id = %v", ids["y"])
	if want := fmt.Sprintf(`{"args": [], "kwargs": {"big": 1180591620717411303424, "one": %v, "text": ["is %[1]v, {{ no }}"]}}`, ids["x"]); row != want {
		t.Errorf("arguments %s, want %s", row, want)
	}

	// It is extended, once: y waits for z, too, and not for x.
	const more = `"graph": {"key": "m", "tasks": [{"name": "z", "type": "step", "depends_on": ["x"], "args": ["{{ task.x.id }}"]}],
		"add_dependencies": {"y": [{"task": "z", "on": "resolved"}]}, "remove_dependencies": {"y": ["x"]}}}`
	for _, wrong := range []string{
		`{"graph_id": 99, ` + more, `{"graph_id": ` + graphID + `, "graph": {}}`,
		`{"graph_id": ` + graphID + `, "graph": {"tasks": [{"name": "y", "type": "step"}]}}`,
		`{"graph_id": ` + graphID + `, "graph": {"add_dependencies": {"x": ["y"]}}}`,                                                                // it doesn't wait
		`{"graph_id": ` + graphID + `, "graph": {"add_dependencies": {"y": ["x"]}}}`,                                                                // it has it
		`{"graph_id": ` + graphID + `, "graph": {"remove_dependencies": {"y": ["y"]}}}`,                                                             // it has it not
		`{"graph_id": ` + graphID + `, "graph": {"tasks": [{"name": "z", "type": "step", "depends_on": ["y"]}], "add_dependencies": {"y": ["z"]}}}`, // a circle
	} {
		call("extend", wrong, http.StatusBadRequest)
	}
	extended := call("extend", `{"graph_id": `+graphID+`, `+more, http.StatusOK)
	if again := call("extend", `{"graph_id": `+graphID+`, `+more, http.StatusOK); again["known"] != true {
		t.Errorf("extended again: %v", again)
	}
	added, _ := extended["tasks"].(map[string]any)
	if got, want := stored("select string_agg(task || ' ' || depends_on || coalesce(' ' || needs, ''), ', ' order by task) from scheduler_go.graph_edges where task >= %v", ids["x"]),
		fmt.Sprintf("%v %v resolved, %[2]v %v", ids["y"], added["z"], ids["x"]); got != want {
		t.Errorf("dependencies %s, want %s", got, want)
	}

	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "step", "depends_on": ["a"]}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "nope"}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "step", "depends_on": [99]}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": 1}`, http.StatusBadRequest)
	call("submit", `{}`, http.StatusInternalServerError)
	call("cancel", `{"graph_id": 99}`, http.StatusBadRequest)
	call("retry", `{"graph_id": 99}`, http.StatusBadRequest)

	client := `
import sys
from datetime import datetime, timezone
from swh.core.api import RPCClient
from swh.scheduler import get_scheduler
url = sys.argv[1]
scheduler = get_scheduler("remote", url=url)
tasks = scheduler.search_tasks(task_type="step")
assert [t.next_run.year == 9999 for t in tasks] == [False, True, False, True, True], tasks
assert len(scheduler.peek_ready_tasks("step")) == 2
raw = RPCClient(url)
assert raw._post("task_graph/status", {"graph_id": 1})["states"]["waiting"] == 1
submitted = raw._post("task_graph/submit", {"graph": {"tasks": [{"name": "é", "type": "step"}]}})
assert submitted["graph"] > 2 and list(submitted["tasks"]) == ["é"], submitted
`
	if out, err := exec.Command(testenv.Python(t), "-W", "ignore", "-c", client, url+"/").CombinedOutput(); err != nil {
		t.Errorf("the Python scheduler's client: %v\n%s", err, out)
	}

	call("cancel", `{"graph_id": 1}`, http.StatusOK)
	if _, err := store.DrainGraphs(t.Context(), someTime); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(states()); !strings.Contains(got, "cancelled:2") {
		t.Errorf("states after cancelling: %s", got)
	}
	call("retry", `{"graph_id": 1}`, http.StatusOK)
	if _, err := store.DrainGraphs(t.Context(), someTime); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(states()); !strings.Contains(got, "ready:1") || !strings.Contains(got, "waiting:1") {
		t.Errorf("states after retrying: %s", got)
	}
}
