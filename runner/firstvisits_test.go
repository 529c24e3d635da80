package runner_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/runner"
)

// listings has listers in every state that first visits look at.
var listings = []string{
	`truncate task, task_type cascade`,
	`insert into task_type (type, description, backend_name, max_queue_length) values
		('load-git', '', 'swh.loader.git.tasks.Update', 20),
		('load-hg', '', 'swh.loader.hg.tasks.Update', 1000)`,
	`insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix, first_visits_scheduled_at)
	 select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'lister', 'i' || n, '{}', now() - interval '1 hour', finished, prefix, done
	 from (values (1, '2026-01-10'::timestamptz, 'first', null::timestamptz),  -- few origins: done in one pass
	              (2, '2026-01-10', 'add_forge_now', null),                    -- more than fit
	              (3, null, 'first', null),                                    -- still listing
	              (4, '2026-01-10', null, null),                               -- no queues of its own
	              (5, '2026-01-10', 'first', '2026-01-11'),                    -- done before
	              (6, '2026-01-10', 'first', null)                             -- empty
	      ) l(n, finished, prefix, done)`,
	`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
	 select ('00000000-0000-0000-0000-00000000000' || l)::uuid, 'https://' || l || '/' || n, type, '{"x": 1}', n % 7 <> 0, now()
	 from generate_series(1, 5) l, unnest(array['git', 'hg']) type, generate_series(1, case l when 2 then 60 else 12 end) n`,
	// Some were scheduled before the listing ended, some since.
	`insert into origin_visit_stats (url, visit_type, last_scheduled)
	 select url, visit_type, case when right(url, 1) = '1' then '2026-01-09'::timestamptz else '2026-01-11' end
	 from listed_origins where right(url, 1) in ('1', '2')`,
}

func newListings(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, statement := range listings {
		testenv.Exec(t, w.store.Pool(), statement)
	}
	return w
}

func (w *world) firstVisitsState(t *testing.T) []string {
	t.Helper()
	return testenv.Column[string](t, w.store.Pool(), `
		select instance_name || ' ' || coalesce((first_visits_scheduled_at > now() - interval '5 min')::text, '-') || ' ' || (updated > now() - interval '5 min') from listers
		union all
		select url || ' ' || visit_type || ' ' || case when last_scheduled > now() - interval '5 min' then 'now' else last_scheduled::text end from origin_visit_stats
		order by 1`)
}

func (w *world) firstVisitsOurs(t *testing.T) {
	t.Helper()
	w.firstVisitsWith(t, nil, nil)
}

// firstVisitsWith makes a pass with shares and lanes.
func (w *world) firstVisitsWith(t *testing.T, shares map[string]model.Shares, lanes map[string][]model.Lane) {
	t.Helper()
	address := parsed.Broker(t, w.broker.URL)
	publisher := celery.NewPublisher(address, celery.PublisherOptions{})
	defer publisher.Close()
	inspector := celery.NewQueueInspector(address, w.broker.ManagementURL, celery.InspectorOptions{})
	defer inspector.Close()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := dispatch.NewDeliverer(w.store, publisher, log, prometheus.NewRegistry())
	f := runner.NewFirstVisits(runner.FirstVisitsOptions{
		Store: w.store, Slots: dispatch.NewSlots(w.store, inspector, d.Wake), Log: log, Reg: prometheus.NewRegistry(), Shares: shares, Lanes: lanes,
	})
	if _, err := f.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var firstVisitQueues = []string{
	"first:swh.loader.git.tasks.Update", "first:swh.loader.hg.tasks.Update",
	"add_forge_now:swh.loader.git.tasks.Update", "add_forge_now:swh.loader.hg.tasks.Update",
}

func (w *world) firstVisitsPeers(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.python, "scheduler", "start-runner-first-visits")
	cmd.Env = append(os.Environ(), testenv.EndsConnections(), "SWH_CONFIG_FILENAME="+w.file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the Python scheduler's runner: %v\n%s", err, out)
	}
}

// A pass over listers in every state marks and sends the same origins to the same queues as the Python scheduler's
// pass, and finishes the same listers.
func TestFirstVisitsLeaveWhatThePeerLeaves(t *testing.T) {
	t.Parallel()
	theirs, ours := newListings(t), newListings(t)
	// Which of equally old origins go first is nobody's promise, so all must fit.
	for _, w := range []*world{theirs, ours} {
		testenv.Exec(t, w.store.Pool(), "update task_type set max_queue_length = 1000")
	}
	theirs.firstVisitsPeers(t)
	ours.firstVisitsOurs(t)
	if diff := cmp.Diff(theirs.firstVisitsState(t), ours.firstVisitsState(t)); diff != "" {
		t.Errorf("rows (-peer +ours):\n%s", diff)
	}
	if diff := cmp.Diff(theirs.bodies(t, firstVisitQueues), ours.bodies(t, firstVisitQueues)); diff != "" {
		t.Errorf("messages (-peer +ours):\n%s", diff)
	}
}

// A lister with more origins than its queues have slots is done after several passes, when its last origin is
// scheduled. Each origin is sent once.
func TestFirstVisitsAreDoneWhenAllAreScheduled(t *testing.T) {
	t.Parallel()
	w := newListings(t)
	var sent []string
	for pass := 1; ; pass++ {
		w.firstVisitsOurs(t)
		messages := w.bodies(t, firstVisitQueues)["add_forge_now:swh.loader.git.tasks.Update"]
		if len(messages) > 20 {
			t.Errorf("%d messages in a queue limited to 20", len(messages))
		}
		sent = append(sent, messages...)
		if slices.Contains(w.firstVisitsState(t), "i2 true true") {
			if pass < 3 {
				t.Errorf("done after %d passes", pass)
			}
			break
		}
		if pass > 10 {
			t.Fatal("never done")
		}
	}
	slices.Sort(sent)
	if n := len(slices.Compact(slices.Clone(sent))); n != len(sent) || n != 47 { // 60, less 8 disabled and 6 scheduled since, one of them both
		t.Errorf("%d visits sent, %d of them different, want 47", len(sent), n)
	}
}

// Listers with the same queue for first visits share it, and its messages use the lanes configured for its prefix.
// Other queues of the task type are unaffected.
func TestFirstVisitsTakeSharesAndLanes(t *testing.T) {
	t.Parallel()
	w := newListings(t)
	for _, statement := range []string{
		"update listers set first_visits_queue_prefix = 'first' where instance_name = 'i2'",
		"insert into origin_visit_stats (url, visit_type, last_scheduled) select url, visit_type, now() from listed_origins where visit_type = 'hg' on conflict (url, visit_type) do update set last_scheduled = now()",
		"update task_type set max_queue_length = 8",
	} {
		testenv.Exec(t, w.store.Pool(), statement)
	}
	by := func(key string) map[string]model.Shares {
		return map[string]model.Shares{key: {By: model.ShareByListerInstance, Default: 1, HalfLife: time.Hour}}
	}
	lanes := map[string][]model.Lane{"first:load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: time.Hour, Slots: 6, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: time.Hour, Slots: 2, MinSlots: 1},
	}}
	const git = "swh.loader.git.tasks.Update"
	for _, tc := range []struct {
		what   string
		shares map[string]model.Shares
		lanes  map[string][]model.Lane
		want   string // origins by lister, messages by queue
	}{
		{"neither", by("load-git"), map[string][]model.Lane{"load-git": lanes["first:load-git"]}, "i1 8, first:" + git + " 8"},
		{"shares", by("first:load-git"), nil, "i1 4, i2 4, first:" + git + " 8"},
		{"shares and lanes", by("first:load-git"), lanes, "i1 4, i2 4, express:first:" + git + " 6, first:" + git + " 2"},
	} {
		testenv.Exec(t, w.store.Pool(), "delete from scheduler_go.work; delete from scheduler_go.shares; update origin_visit_stats set last_scheduled = null where last_scheduled > now() - interval '1 day' and visit_type = 'git'; delete from scheduler_go.deliveries")
		w.firstVisitsWith(t, tc.shares, tc.lanes)
		got := testenv.Value[string](t, w.store.Pool(), `select string_agg('i' || n || ' ' || c, ', ' order by n) from (
			select left(substring(url from 9), 1) n, count(*) c from origin_visit_stats where visit_type = 'git' and last_scheduled > now() - interval '1 day' group by 1) s`)
		for _, queue := range []string{"express:first:" + git, "first:" + git} {
			if n := len(w.bodies(t, []string{queue})[queue]); n > 0 {
				got += fmt.Sprintf(", %s %d", queue, n)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
}
