package rpc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

// A graph is submitted, watched, cancelled and retried over HTTP, in either
// format; what is wrong with one is a 400 that says what; and the peer's client
// reads tasks that wait.
func TestGraphs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "insert into task_type (type, description, backend_name) values ('step', '', 'swh.test.Step')"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := serve(t, dsn)
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
	if got := call("status", `{"graph_id": 2}`, http.StatusOK); got != nil {
		t.Errorf("a graph that is not there: %v", got)
	}
	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "step", "depends_on": ["a"]}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "nope"}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": {"tasks": [{"name": "b", "type": "step", "depends_on": [99]}]}}`, http.StatusBadRequest)
	call("submit", `{"graph": 1}`, http.StatusBadRequest)
	call("submit", `{}`, http.StatusInternalServerError)
	call("cancel", `{"graph_id": 2}`, http.StatusBadRequest)
	call("retry", `{"graph_id": 2}`, http.StatusBadRequest)

	client := `
import sys
from datetime import datetime, timezone
from swh.core.api import RPCClient
from swh.scheduler import get_scheduler
url = sys.argv[1]
scheduler = get_scheduler("remote", url=url)
tasks = scheduler.search_tasks(task_type="step")
assert [t.next_run.year == 9999 for t in tasks] == [False, True], tasks
assert len(scheduler.peek_ready_tasks("step")) == 1
raw = RPCClient(url)
assert raw._post("task_graph/status", {"graph_id": 1})["states"]["waiting"] == 1
submitted = raw._post("task_graph/submit", {"graph": {"tasks": [{"name": "é", "type": "step"}]}})
assert submitted["graph"] == 2 and list(submitted["tasks"]) == ["é"], submitted
`
	if out, err := exec.Command(testenv.Python(t), "-W", "ignore", "-c", client, url+"/").CombinedOutput(); err != nil {
		t.Errorf("the peer's client: %v\n%s", err, out)
	}

	store := openStore(t, dsn)
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
