package rpc

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// The differences from the Python server are those of the package comment.
func TestDifferencesFromThePeer(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	tw.reset(t)
	for _, conn := range tw.conns {
		testenv.Exec(t, conn, `
			insert into task (type, arguments, next_run, current_interval, status)
			select 'load-git', '{"args": [], "kwargs": {}}', now() - interval '1 day', '1 day', 'next_run_not_scheduled' from generate_series(1, 100);
			insert into task_run (task, scheduled, status) values (3, now(), 'eventful'), (3, now(), 'eventful'), (2, now(), 'eventful');
			insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select id, 'https://x', type, '{}', true, now() from listers, unnest(array['git', 'hg']) type where name = 'gitea'`)
	}
	f := form{mimeMsgpack, mimeJSON}
	differ := func(what string, of func(side int) string, python, ours string) {
		t.Helper()
		if p, o := of(0), of(1); p != python || o != ours {
			t.Errorf("%s: the Python server %s, want %s; ours %s, want %s", what, p, python, o, ours)
		}
	}
	differ("runs left, of 3, when run 3 of task 2 is deleted", func(side int) string {
		run := map[string]any{"task_id": 2, "task_run_id": 3}
		if a, _ := tw.call(t, side, "task/delete_archived", map[string]any{"task_ids": []any{run}}, f, asAnswered); a.status != http.StatusOK {
			t.Fatalf("%+v", a)
		}
		return fmt.Sprint(testenv.Column[int64](t, tw.conns[side], "select id from task_run order by id"))
	}, "[1]", "[1 2]")
	differ("visit types of an origin in pages of one", func(side int) string {
		var types []string
		for token := any(nil); ; {
			_, answer := tw.call(t, side, "origins/get", map[string]any{"lister_id": listerIDs[1], "limit": 1, "page_token": token}, f, asAnswered)
			page := answer.(map[string]any)["d"].(map[string]any)
			for _, origin := range page["results"].([]any) {
				types = append(types, origin.(map[string]any)["d"].(map[string]any)["visit_type"].(string))
			}
			if token = page["next_page_token"]; token == nil {
				return fmt.Sprint(types)
			}
		}
	}, "[git]", "[git hg]")
	differ("tracebacks", func(side int) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tw.urls[side]+"/task/respawn", strings.NewReader(`{"nope": 1}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", mimeJSON)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode == http.StatusOK {
			t.Fatalf("%d %v", response.StatusCode, err)
		}
		return fmt.Sprint(strings.Contains(string(text), ".py"))
	}, "true", "false")

	// Grabs at once; that the Python server may answer the same task twice is chance.
	var grabs sync.WaitGroup
	var grabbed [8][]string
	for i := range grabbed {
		grabs.Go(func() {
			_, answer := tw.call(quietly{t}, 1, "task/grab_ready", map[string]any{"task_type": "load-git", "num_tasks": 30}, f, asAnswered)
			tasks, _ := answer.([]any)
			for _, task := range tasks {
				grabbed[i] = append(grabbed[i], plain(task.(map[string]any)["d"].(map[string]any)["id"]))
			}
		})
	}
	grabs.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(grabbed[:]...)))
	if n := len(slices.Compact(slices.Clone(all))); n != 99 || len(all) != n { // one was deleted
		t.Errorf("%d of 99 tasks were grabbed, %d times", n, len(all))
	}
}

// Further differences: which tasks go with archived runs, and intervals longer than 292 years.
func TestNumbersThatDiffer(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	tw.reset(t)
	for _, conn := range tw.conns {
		testenv.Exec(t, conn, `
			update task_type set max_interval = '300 years' where type = 'load-hg';
			insert into task (type, arguments, next_run, current_interval, status)
			select case when n = 7 then 'load-hg' else 'load-git' end, '{"args": [], "kwargs": {}}', now() - interval '1 day', case when n = 7 then interval '300 years' else '1 day' end, 'next_run_not_scheduled' from generate_series(1, 7) n`)
	}
	f := form{mimeMsgpack, mimeJSON}
	run := map[string]any{"task_ids": []any{map[string]any{"task_id": 2, "task_run_id": 3}}}
	hg := map[string]any{"task_type": "load-hg"}
	for _, tc := range []struct {
		what, path   string
		arguments    map[string]any
		rows         string
		python, ours string
	}{
		// That a run's number is taken for a task's too is by mistake: both lists are one.
		{"run 3 of task 2 is deleted", "task/delete_archived", run, "select id from task where id <= 3 order by id", "200 [1]", "200 [1 3]"},
		{"a task type with an interval of 300 years", "task_type/get", map[string]any{"task_type_name": "load-hg"}, "", "200 []", "500 OverflowError []"},
		{"all task types", "task_type/get_all", map[string]any{}, "", "200 []", "500 OverflowError []"},
		{"tasks with an interval of 300 years", "task/peek_ready", hg, "", "200 []", "500 OverflowError []"},
		{"the same, to be marked", "task/grab_ready", hg, "select id from task where status = 'next_run_scheduled'", "200 [7]", "500 OverflowError []"},
	} {
		for side, want := range []string{tc.python, tc.ours} {
			a, _ := tw.call(t, side, tc.path, tc.arguments, f, asAnswered)
			var ids []int64
			if tc.rows != "" {
				ids = testenv.Column[int64](t, tw.conns[side], tc.rows)
			}
			if got := strings.Join(strings.Fields(fmt.Sprint(a.status, " ", a.exception, " ", ids)), " "); got != want {
				t.Errorf("%s: server %d: %s, want %s; %s", tc.what, side, got, want, a.message)
			}
		}
	}
}

// A grab that returns a row which clients can't read marks nothing, as with the Python server: with the answer, the
// client would lose all other rows.
func TestUnreadableGrabsMarkNothing(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	f := form{mimeMsgpack, mimeJSON}
	for _, tc := range []struct{ path, odd string }{
		{"task/grab_ready", `update task set arguments = '{"args": {}, "kwargs": {}}' where id = 3`},
		{"task/grab_ready", `update task set arguments = '{"args": [], "kwargs": null}' where id = 3`},
		{"task/grab_ready", `update task set next_run = '0044-03-15 BC' where id = 3`},
		{"task/grab_ready_with_priority", `update task set priority = 'high', arguments = '{"args": [], "kwargs": []}'`},
		{"origins/grab_next", "update listed_origins set last_update = '20000-01-01' where url = 'https://3'"},
		{"origins/grab_next", "update listed_origins set last_seen = '0044-03-15 BC' where url = 'https://3'"},
	} {
		tw.reset(t)
		for side, conn := range tw.conns {
			testenv.Exec(t, conn, `
				insert into task (type, arguments, next_run, current_interval, status)
				select 'load-git', '{"args": [], "kwargs": {}}', '2024-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 3);
				insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
				select id, 'https://' || n, 'git', '{}', true, '2024-01-01' from listers, generate_series(1, 3) n where name = 'gitea'`)
			testenv.Exec(t, conn, tc.odd)
			arguments := map[string]any{"task_type": "load-git"}
			if tc.path == "origins/grab_next" {
				arguments = map[string]any{"visit_type": "git", "count": 10, "policy": "oldest_scheduled_first", "timestamp": time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)}
			}
			a, _ := tw.call(t, side, tc.path, arguments, f, asAnswered)
			marked := testenv.Column[int64](t, conn, `select (select count(*) from task where status = 'next_run_scheduled') + (select count(*) from origin_visit_stats)`)
			if a.status != http.StatusInternalServerError || marked[0] != 0 {
				t.Errorf("%s after %s: server %d: status %d, %d marked", tc.path, tc.odd, side, a.status, marked[0])
			}
		}
	}
}

// Empty values, and booleans in place of numbers, are accepted and refused as by the Python server, and leave the
// same rows.
func TestOddValuesAreThePeers(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	tw.reset(t)
	for _, conn := range tw.conns {
		testenv.Exec(t, conn, `
			insert into task (type, arguments, next_run, current_interval, status)
			select 'load-git', '{"args": [], "kwargs": {}}', '2024-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 3);
			insert into task_run (task, scheduled, status) select 1, '2024-01-01', 'eventful' from generate_series(1, 3);
			insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select id, 'https://' || n, 'git', '{}', true, '2024-01-01' from listers, generate_series(1, 3) n where name = 'gitea'`)
	}
	class := func(name string, required, odd map[string]any) any {
		fields := map[string]any{}
		for _, from := range []map[string]any{required, odd} {
			maps.Copy(fields, from)
		}
		return object(name, fields)
	}
	type dict = map[string]any
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	task := func(odd dict) dict {
		return dict{"tasks": []any{class("Task", dict{"type": "load-git", "arguments": object("TaskArguments", dict{}), "next_run": now}, odd)}}
	}
	stats := func(odd dict) dict {
		return dict{"origin_visit_stats": []any{class("OriginVisitStats", dict{"url": "https://x", "visit_type": "git"}, odd)}}
	}
	taskType := func(odd dict) dict {
		return dict{"task_type": class("TaskType", dict{"type": "new", "description": "d", "backend_name": "b"}, odd)}
	}
	runs := func(odd dict) dict {
		return dict{"task_runs": []any{class("TaskRun", dict{"task": 1, "scheduled": now}, odd)}}
	}
	grab := func(count any) dict {
		return dict{"visit_type": "git", "count": count, "policy": "never_visited_oldest_update_first", "timestamp": now}
	}
	for _, tc := range []struct {
		path      string
		arguments dict
		status    int
	}{
		{"origins/grab_next", grab(nil), http.StatusOK},
		{"origins/grab_next", grab(""), http.StatusInternalServerError},
		{"origins/grab_next", grab(true), http.StatusInternalServerError},
		{"task/filter_for_archive", dict{"after_ts": "2024-01-01", "before_ts": "2024-02-01", "limit": 0}, http.StatusOK},
		{"task/filter_for_archive", dict{"after_ts": "2024-01-01", "before_ts": "2024-02-01", "limit": -2}, http.StatusInternalServerError},
		{"task/search", dict{"before": ""}, http.StatusOK},
		{"task/search", dict{"before": 0}, http.StatusOK},
		{"task/search", dict{"after": ""}, http.StatusOK},
		{"task/search", dict{"after": false}, http.StatusOK},
		{"task/search", dict{"limit": ""}, http.StatusOK},
		{"task/search", dict{"limit": false}, http.StatusOK},
		{"task/search", dict{"limit": true}, http.StatusInternalServerError},
		{"task_run/get", dict{"task_ids": []any{1}, "limit": ""}, http.StatusOK},
		{"task_run/get", dict{"task_ids": []any{1}, "limit": true}, http.StatusInternalServerError},
		{"task/get", dict{"task_ids": []any{true}}, http.StatusInternalServerError},
		{"task/create", task(dict{"retries_left": true}), http.StatusInternalServerError},
		{"task/create", task(dict{"id": true}), http.StatusOK},
		{"task_run/schedule", runs(dict{"task": true}), http.StatusInternalServerError},
		{"task_run/schedule", runs(dict{"id": true}), http.StatusOK},
		{"visit_stats/upsert", stats(dict{"next_position_offset": true}), http.StatusInternalServerError},
		{"visit_stats/upsert", stats(dict{"next_visit_queue_position": true}), http.StatusInternalServerError},
		{"visit_stats/upsert", stats(dict{"successive_visits": false}), http.StatusInternalServerError},
		{"task_type/create", taskType(dict{"num_retries": true}), http.StatusInternalServerError},
		{"task_type/create", taskType(dict{"max_queue_length": false}), http.StatusInternalServerError},
		{"visit_scheduler/set", dict{"visit_type": "git", "position": true}, http.StatusInternalServerError},
	} {
		want, got := tw.both(t, tc.path, tc.arguments, form{mimeMsgpack, mimeJSON})
		if want.status != tc.status || got.status != tc.status || want.value != got.value {
			t.Errorf("%s %v:\nthe Python server %+v\nours              %+v\nwant status %d", tc.path, tc.arguments, want, got, tc.status)
		}
		tw.compareRows(t)
	}
}

// A negative limit of runs to archive is the Python scheduler's error, and no fault of the server.
func TestArchiveOfFewerThanNoRuns(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	tw.reset(t)
	arguments := map[string]any{"after_ts": "2024-01-01", "before_ts": "2024-02-01", "limit": -1}
	want, got := tw.both(t, "task/filter_for_archive", arguments, form{mimeMsgpack, mimeJSON})
	if got.exception != "IndexError" || want != got {
		t.Errorf("the Python server %+v\nours              %+v", want, got)
	}
}

// quietly is a test for goroutines, which may not end it.
type quietly struct{ *testing.T }

func (t quietly) Fatal(args ...any)                 { t.Error(args...) }
func (t quietly) Fatalf(format string, args ...any) { t.Errorf(format, args...) }
