package rpc

import (
	"net/http"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A call whose response would have too many rows is refused, and marks nothing as scheduled. The error names the
// argument to lower. A response that fits is returned, also without that argument or with a larger one.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn, func(o *Options) { o.MaxRows = 3 })
	store := openStore(t, dsn)
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('few', '', 'few'), ('many', '', 'many'), ('old', '', 'old')",
		`insert into task (id, type, arguments, next_run, current_interval, status, priority)
			select n, case when n % 10 <= 3 then 'few' else 'many' end, '{}', '2020-01-01', '1 day', 'next_run_not_scheduled', case when n > 10 then 'high'::task_priority end
			from generate_series(1, 17) n where n % 10 between 1 and 7`,
		"insert into task_run (task, scheduled, status) select case when n <= 3 then 1 else 4 end, '2020-01-01', 'scheduled' from generate_series(1, 7) n",
		`insert into task (id, type, arguments, next_run, current_interval, status, policy)
			select n, 'old', '{}', '2020-01-01', '1 day', 'completed', 'oneshot' from generate_series(101, 107) n`,
		`insert into task_run (task, scheduled, started, ended, status)
			select n, '2020-01-01', '2020-01-01', '2020-01-01', 'eventful' from generate_series(101, 107) n`,
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
			select '00000000-0000-0000-0000-000000000001', 'https://' || n, case when n <= 3 then 'few' else 'many' end, '{}', true, now(), now() from generate_series(1, 7) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	marked := func() int {
		t.Helper()
		return testenv.Value[int](t, store.Pool(), `select (select count(*) from task where status = 'next_run_scheduled')
			+ (select count(*) from origin_visit_stats where last_scheduled is not null)`)
	}
	const grab = `"policy": "never_visited_oldest_update_first", "count": 5, "visit_type": `
	for _, tc := range []struct{ path, argument, tooMany, enough string }{
		{"task/search", "limit", `"task_type": "many"`, `"task_type": "few", "priority": "high"`},
		{"task/search", "limit", `"task_type": "many", "limit": 4`, `"task_type": "many", "limit": 3`},
		{"task/get", "task_ids", `"task_ids": [1, 2, 3, 4]`, `"task_ids": [1, 2, 3]`},
		{"task/peek_ready", "num_tasks", `"task_type": "many"`, `"task_type": "few"`},
		{"task/peek_ready", "num_tasks", `"task_type": "many", "num_tasks": 4`, `"task_type": "few", "num_tasks": 4`},
		{"task/peek_ready_with_priority", "num_tasks", `"task_type": "many"`, `"task_type": "few"`},
		{"task_run/get", "limit", `"task_ids": [4]`, `"task_ids": [1]`},
		{"task_run/get", "task_ids", `"task_ids": [1, 2, 3, 4]`, `"task_ids": [1, 2]`},
		{"task/filter_for_archive", "limit", `"after_ts": "2019-01-01", "before_ts": "2021-01-01", "limit": 9`, `"after_ts": "2019-01-01", "before_ts": "2021-01-01", "limit": 3`},
		{"origins/get", "limit", `"limit": 9`, `"urls": ["https://1", "https://2", "https://3"]`},
		{"visit_stats/get", "ids", `"ids": [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]`, `"ids": [["a", "b"]]`},
		{"listers/get_by_id", "lister_ids", `"lister_ids": ["` + strings.Repeat(`00000000-0000-0000-0000-000000000001", "`, 3) + `00000000-0000-0000-0000-000000000001"]`,
			`"lister_ids": ["00000000-0000-0000-0000-000000000001"]`},
		{"task/grab_ready", "num_tasks", `"task_type": "many"`, ``},
		{"task/grab_ready_with_priority", "num_tasks", `"task_type": "many", "num_tasks": 5`, ``},
		{"origins/grab_next", "count", grab + `"many"`, ``},
	} {
		response, body := post(t, url+"/"+tc.path, mimeJSON, []byte("{"+tc.tooMany+"}"))
		if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), " 3 ") || !strings.Contains(string(body), tc.argument) {
			t.Errorf("%s {%s}: %s, %q; want a refusal that names %s", tc.path, tc.tooMany, response.Status, body, tc.argument)
		}
		if tc.enough == "" {
			continue
		}
		if response, body := post(t, url+"/"+tc.path, mimeJSON, []byte("{"+tc.enough+"}")); response.StatusCode != http.StatusOK {
			t.Errorf("%s {%s}: %s, %q", tc.path, tc.enough, response.Status, body)
		}
	}
	if n := marked(); n > 0 {
		t.Errorf("calls that were refused marked %d tasks and origins as scheduled", n)
	}
	for path, arguments := range map[string]string{
		"task/grab_ready": `"task_type": "few"`, "task/grab_ready_with_priority": `"task_type": "few", "num_tasks": 9`, "origins/grab_next": grab + `"few"`,
	} {
		if response, body := post(t, url+"/"+path, mimeJSON, []byte("{"+arguments+"}")); response.StatusCode != http.StatusOK {
			t.Errorf("%s {%s}: %s, %q", path, arguments, response.Status, body)
		}
	}
	if n := marked(); n != 9 {
		t.Errorf("calls that were answered marked %d tasks and origins as scheduled, want 9", n)
	}
}
