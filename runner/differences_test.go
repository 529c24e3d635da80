package runner_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
)

// The Python runner claims all tasks with priority by date. Ours claims high priorities first, within the limit of
// the type.
func TestPriorityDiffersFromThePythonRunner(t *testing.T) {
	t.Parallel()
	const queue = "save_code_now:swh.loader.git.tasks.Update"
	for name, tc := range map[string]struct {
		run  func(w *world)
		want []int
	}{
		"Python": {func(w *world) { w.runPeer(t, "--with-priority") }, []int{7, 6, 4, 3, 2, 0}},
		"ours":   {func(w *world) { w.runOurs(t, runner.Options{WithPriority: true}) }, []int{7, 3, 6, 2}},
	} {
		w := newLimitedWorld(t, 8, 4)
		tc.run(w)
		var want []string
		for _, n := range tc.want {
			want = append(want, fmt.Sprintf(`swh.loader.git.tasks.Update [[%d], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`, n))
		}
		if diff := cmp.Diff(want, w.inOrder(t, []string{queue}, func(string) {})[queue]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// For a lister without an instance name, the Python runner of first visits also sends origins of other listers of
// that name. It considers a lister done once its origins are visited. Ours doesn't.
func TestFirstVisitsDifferFromThePeers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  func(w *world)
		want string // what is sent, and which lister is done
	}{
		"Python": {func(w *world) { w.firstVisitsPeers(t) }, "named 1, nameless 1, visited 1; done: nameless visited"},
		"ours":   {func(w *world) { w.firstVisitsOurs(t) }, "nameless 1, visited 1; done: nameless"},
	} {
		w := newWorld(t)
		for _, statement := range []string{
			`truncate task, task_type cascade`,
			`insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.loader.git.tasks.Update', 20), ('load-hg', '', 'swh.loader.hg.tasks.Update', 1)`,
			`insert into listers (name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix) values
				('nameless', '', '{}', now() - interval '1 hour', '2026-01-10', 'first'), ('nameless', 'named', '{}', now() - interval '1 hour', null, null),
				('visited', 'i', '{}', now() - interval '1 hour', '2026-01-10', 'first')`,
			`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
				select id, 'https://' || case when instance_name = 'named' then 'named' else name end, 'git', '{}', true, now() from listers where name = 'nameless'`,
			`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
				select id, 'https://visited/' || n, 'hg', '{}', true, now() from listers, generate_series(1, 2) n where name = 'visited'`,
			`insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) select url, visit_type, '2026-01-11', 'successful' from listed_origins where visit_type = 'hg'`,
		} {
			testenv.Exec(t, w.store.Pool(), statement)
		}
		tc.run(w)
		got := testenv.Value[string](t, w.store.Pool(), `select
			(select string_agg(site || ' ' || n, ', ' order by site collate "C") from
				(select split_part(url, '/', 3) site, count(*) n from origin_visit_stats where last_scheduled > now() - interval '5 min' group by 1) s) || '; done: ' ||
			coalesce((select string_agg(name, ' ' order by name) from listers where first_visits_scheduled_at > now() - interval '5 min'), 'none')`)
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
