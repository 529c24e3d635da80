package dashboard

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// A worker's figures are the sum of all listeners' reports, as each receives some of its events. Workers with most
// failures come first, and their names are escaped.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	now := time.Now().UTC().Truncate(time.Second)
	for _, heard := range []map[string]db.Worker{
		{"a": {LastEvent: now, Active: 2, Ended: 5, Failed: 1}, "idle": {LastEvent: now}},
		{"a": {LastEvent: now.Add(-time.Second), Active: 3, Ended: 4}, hostile: {LastEvent: now, Ended: 2, Failed: 2}},
	} {
		if err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: "start-listener", Started: now, State: db.DaemonState{Workers: heard}}); err != nil {
			t.Fatal(err)
		}
	}
	s.forget()
	var page struct{ Workers []workerData }
	if err := json.Unmarshal([]byte(s.get("/daemons", "Accept", "application/json")), &page); err != nil {
		t.Fatal(err)
	}
	want := []workerData{{hostile, db.Worker{LastEvent: now, Ended: 2, Failed: 2}}, {"a", db.Worker{LastEvent: now, Active: 2, Ended: 9, Failed: 1}}, {"idle", db.Worker{LastEvent: now}}}
	if diff := cmp.Diff(want, page.Workers); diff != "" {
		t.Error(diff)
	}
	s.has("/daemons", `<th scope="row">a</th>`, `<td class="n bad">2</td>`, "&lt;script&gt;")
	testenv.Exec(t, s.store.Pool(), "update scheduler_go.daemons set seen = now() - interval '1 hour'")
	s.forget()
	s.has("/daemons", "No worker reports")
}
