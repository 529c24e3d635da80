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

// A graph is submitted, read, cancelled and retried over HTTP in either format. A faulty graph gets a 400 that
// names the fault. The Python scheduler's client can read waiting tasks.
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
	call("submit", `{}`, http.StatusBadRequest)
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
	if _, err := store.AdvanceGraphs(t.Context(), someTime); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(states()); !strings.Contains(got, "cancelled:2") {
		t.Errorf("states after cancelling: %s", got)
	}
	call("retry", `{"graph_id": 1}`, http.StatusOK)
	if _, err := store.AdvanceGraphs(t.Context(), someTime); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(states()); !strings.Contains(got, "ready:1") || !strings.Contains(got, "waiting:1") {
		t.Errorf("states after retrying: %s", got)
	}
}

// A graph that can't be stored or run is a ValueError with status 400, as a check and as a submission, as text and
// as values. Nothing of it is stored.
func TestFaultyGraphs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn)
	store := openStore(t, dsn)
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('step', '', 'swh.test.Step')")
	ask := func(path, body string) (int, string) {
		t.Helper()
		response, text := post(t, url+"/task_graph/"+path, mimeJSON, []byte(body))
		return response.StatusCode, string(text)
	}
	if code, text := ask("submit", `{"graph": {"tasks": [{"name": "a", "type": "step"}, {"name": "waits", "type": "step", "depends_on": ["a"]}]}}`); code != http.StatusOK {
		t.Fatal(text)
	}
	task := func(more string) string { return `{"tasks": [{"name": "a", "type": "step"` + more + `}]}` }
	for graph, want := range map[string]string{
		task(`, "args": null`):                                           "args must be a list, not null",
		task(`, "kwargs": null`):                                         "kwargs must be a mapping, not null",
		task(`, "args": ["\ud800"]`):                                     "half a surrogate pair",
		task(`, "args": [1e400000]`):                                     "",
		task(`, "args": ["\u0000"]`):                                     "PostgreSQL has no texts with a NUL",
		task(`, "retries": -1`):                                          "retries -1 is negative",
		task(`, "retries": 99999999999999999999`):                        "retries must be a whole number",
		task(`, "deadline": "9999-12-31T23:59:59-12:00"`):                "is neither a date",
		task(`, "depends_on": [1, 1]`):                                   "depends on task 1 twice",
		task(`, "depends": []`):                                          "unknown field",
		task(`, "type": "st\u0000ep"`):                                   "",
		`{"name": "a\u0000", ` + task("")[1:]:                            "PostgreSQL has no texts with a NUL (name)",
		`{"key": "` + strings.Repeat("k", 12_000) + `", ` + task("")[1:]: "the key has 12000 bytes, and may have 1000",
		`{"tasks": [{"name": "a\u0000", "type": "step"}]}`:               "PostgreSQL has no texts with a NUL (name)",
		`{"tasks": []}`:                                                  "the graph has no tasks",
		`{}`:                                                             "the graph has no tasks",
		`[]`:                                                             "must be a mapping",
		`null`:                                                           "the graph has no tasks",
	} {
		quoted, err := json.Marshal(graph)
		if err != nil {
			t.Fatal(err)
		}
		for _, as := range []string{graph, string(quoted)} {
			for _, path := range []string{"check", "submit"} {
				if code, text := ask(path, `{"graph": `+as+`}`); code != http.StatusBadRequest || !strings.Contains(text, want) {
					t.Errorf("%s of %.100s: %d, want %s: %.300s", path, as, code, want, text)
				}
			}
		}
	}
	for _, extension := range []string{
		`{"add_dependencies": {"waits": ["a", 1]}}`, `{"add_dependencies": {"waits": [{"task": 2, "on": "failed"}]}}`,
		`{"tasks": [{"name": "b", "type": "step", "depends_on": ["a", 1]}]}`, `{"remove_dependencies": {"waits": ["a", 1]}}`,
	} {
		if code, text := ask("extend", `{"graph_id": 1, "graph": `+extension+`}`); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", extension, code, text)
		}
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*)::int from task"); n != 2 {
		t.Errorf("%d tasks are stored, want 2", n)
	}

	// A name of several lines, and braces that are escaped, are references, too.
	code, text := ask("submit", `{"graph": {"tasks": [{"name": "x\ny", "type": "step"}, {"name": "z", "type": "step", "depends_on": ["x\ny"],
		"args": ["{{ task.x\ny.id }}", "is \u007b\u007b task.x\ny.id }}"]}]}}`)
	if args := testenv.Value[string](t, store.Pool(), "select (arguments->'args')::text from task order by id desc limit 1"); code != http.StatusOK || args != `[3, "is 3"]` { // two tasks were there
		t.Errorf("arguments %s; %d %s", args, code, text)
	}
	quoted, _ := json.Marshal(`{"tasks": [{"name": "x", "type": "step"}, {"name": "z", "type": "step", "depends_on": ["x"], "args": ["\u007b{ task.x.id }}"]}]}`)
	code, text = ask("submit", `{"graph": `+string(quoted)+`}`)
	if args := testenv.Value[string](t, store.Pool(), "select (arguments->'args')::text from task order by id desc limit 1"); code != http.StatusOK || args == `["{{ task.x.id }}"]` {
		t.Errorf("arguments %s; %d %s", args, code, text)
	}
}
