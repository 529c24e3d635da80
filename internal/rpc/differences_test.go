package rpc

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"swh-scheduler/internal/testenv"
)

// What the package comment says to differ from the Python server does.
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

// quietly is a test for goroutines, which may not end it.
type quietly struct{ *testing.T }

func (t quietly) Fatal(args ...any)                 { t.Error(args...) }
func (t quietly) Fatalf(format string, args ...any) { t.Errorf(format, args...) }
