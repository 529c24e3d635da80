package rpc

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
)

// The calls about one run write the given time, not that of the call.
func TestRunsHaveTheMomentsTheyAreGiven(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store, url := openStore(t, dsn), serve(t, dsn)
	for _, statement := range []string{
		`insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor)
			values ('load-git', '', 'swh.git', '1 day', '1 day', '1 day', 1)`,
		`insert into task (id, type, arguments, next_run, current_interval, status) values (1, 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled')`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	at := func(hour string) string {
		return `, "timestamp": {"swhtype": "datetime", "d": "2024-03-01T` + hour + `:00:00+00:00"}}`
	}
	for _, call := range [][2]string{
		{"/task_run/schedule_one", `{"task_id": 1, "backend_id": "run"` + at("10")},
		{"/task_run/start", `{"backend_id": "run"` + at("11")},
		{"/task_run/end", `{"backend_id": "run", "status": "eventful"` + at("12")},
	} {
		if response, body := post(t, url+call[0], mimeJSON, []byte(call[1])); response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s", call[0], response.Status, body)
		}
	}
	runs, err := store.TaskRuns(t.Context(), []int64{1}, 0)
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	var got []int
	for _, moment := range []*time.Time{runs[0].Scheduled, runs[0].Started, runs[0].Ended} {
		if moment != nil {
			got = append(got, moment.UTC().Hour())
		}
	}
	if diff := cmp.Diff([]int{10, 11, 12}, got); diff != "" || runs[0].Ended.UTC().Format(time.DateOnly) != "2024-03-01" {
		t.Errorf("%+v: hours (-want +got):\n%s", runs[0], diff)
	}
}
