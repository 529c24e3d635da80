package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// explain prints why a row was not scheduled, and when it will be.
func TestExplain(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`
scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
lost_after: {load-git: 36h}
shares: {load-hg: {by: lister, default: 1}}
visit_rules: {disable_after_mixed: 4}
hosters: {limits: {two: {max_in_flight: 1}}}
lanes:
  load-laned: [{name: express, queue: "express:{backend_name}", time_limit: 1 min}, {name: slow, time_limit: 1 h}]
`, dsn, mq.URL, mq.ManagementURL))
	channel := testenv.Channel(t, mq.URL)
	testenv.Declare(t, channel, "swh.full", nil)
	execute(t, dsn, someTaskTypes+";"+someOrigins+`;
		insert into task_type (type, backend_name, description, max_queue_length) values ('full', 'swh.full', '', 3), ('load-hg', 'swh.hg', '', 5), ('load-laned', 'swh.laned', '', 5);
		insert into task (id, type, arguments, next_run, status, policy, retries_left, priority, current_interval) overriding system value
		select id, type, '{"args": [], "kwargs": {}}', next_run, status::task_status, policy::task_policy, retries, priority::task_priority, '2 days'
		from (values
			(101, 'load-git', now() + interval '3 days 1 hour', 'next_run_not_scheduled', 'recurring', 0, null),
			(102, 'load-git', now() - interval '3 hours 1 second', 'next_run_not_scheduled', 'recurring', 0, null),
			(103, 'load-git', now() - interval '2 hours', 'next_run_not_scheduled', 'recurring', 0, null),
			(104, 'load-git', now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot', 0, 'high'),
			(105, 'load-git', now(), 'disabled', 'oneshot', 0, null),
			(106, 'load-git', now(), 'completed', 'oneshot', 0, null),
			(107, 'load-git', now(), 'next_run_scheduled', 'oneshot', 0, null),
			(108, 'load-git', now(), 'next_run_scheduled', 'oneshot', 0, null),
			(109, 'load-git', now(), 'next_run_scheduled', 'oneshot', 0, null),
			(110, 'load-git', now(), 'next_run_scheduled', 'oneshot', 0, null),
			(111, 'load-git', now(), 'next_run_scheduled', 'oneshot', 0, null),
			(112, 'load-git', now() + interval '10 minutes 30 seconds', 'next_run_not_scheduled', 'recurring', 2, null),
			(114, 'load-laned', now() - interval '1 hour', 'next_run_scheduled', 'oneshot', 0, null),
			(115, 'load-laned', now() - interval '1 hour', 'next_run_scheduled', 'oneshot', 0, null),
			(116, 'load-laned', now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot', 0, null),
			(113, 'full', now() - interval '1 hour', 'next_run_not_scheduled', 'recurring', 0, null)
		) t (id, type, next_run, status, policy, retries, priority);
		insert into task_run (task, backend_id, status, scheduled, started, ended, metadata) values
			(105, '00000000-0000-0000-0000-000000000105', 'failed', '2026-01-01', '2026-01-02', '2026-01-03', '{"error": "ValueError: no"}'),
			(106, '00000000-0000-0000-0000-000000000106', 'eventful', '2026-01-01', '2026-01-02', '2026-01-03', '{}'),
			(108, '00000000-0000-0000-0000-000000000108', 'scheduled', now() - interval '1 hour', null, null, '{}'),
			(109, '00000000-0000-0000-0000-000000000109', 'scheduled', now(), null, null, '{}'),
			(110, '00000000-0000-0000-0000-000000000110', 'scheduled', now() - interval '1 hour', null, null, '{}'),
			(111, '00000000-0000-0000-0000-000000000111', 'started', now(), now() - interval '5 minutes', null, '{"worker": "celery@here"}'),
			(114, '00000000-0000-0000-0000-000000000114', 'started', now() - interval '1 hour', now() - interval '1 hour', null, '{"worker": "celery@here"}'),
			(115, '00000000-0000-0000-0000-000000000115', 'scheduled', now() - interval '1 hour', null, null, '{}'),
			(112, '00000000-0000-0000-0000-000000000112', 'failed', now(), now(), now(), '{"error": "again"}');
		insert into scheduler_go.work (task_id, lane_set, lane, state, timed_out, since, claimed, task_name, args, kwargs, queue, home,
			memory, lister, first, behind, url, visit_type, lane_name, soft_limit, hard_limit, lanes_left, started) values
			('00000000-0000-0000-0000-000000000114', 'load-laned', 1, 'backlog', 1, now() - interval '5 minutes', now() - interval '1 hour',
				'', '[]', '{}', 'swh.laned', '', 0, '', false, 0, 'https://a', 'laned', 'express', 60, 66, 1, null),
			('00000000-0000-0000-0000-000000000115', 'load-laned', 0, 'sent', 0, now() - interval '5 minutes', now() - interval '1 hour',
				'', '[]', '{}', 'express:swh.laned', '', 0, '', false, 0, 'https://b', 'laned', 'express', 60, 66, 1, null),
			(gen_random_uuid(), 'load-laned', 1, 'sent', 1, now() - interval '5 minutes', now() - interval '1 hour',
				'', '[]', '{}', 'swh.laned', '', 0, '', false, 0, 'https://laned/runs', 'laned', 'slow', 3600, 3960, 0, extract(epoch from now()) - 600),
			(gen_random_uuid(), 'load-laned', 1, 'backlog', 0, now() - interval '10 minutes', now() - interval '10 minutes',
				'', '[]', '{}', 'swh.laned', '', 0, '', false, 0, 'https://laned/waits', 'laned', null, null, null, 0, null);
		update task set status = 'disabled', retries_left = 0 where id = 105;
		update task set status = 'completed' where id = 106;
		update task set status = 'next_run_not_scheduled', retries_left = 2, next_run = now() + interval '10 minutes 30 seconds' where id = 112;
		insert into scheduler_go.visit_failures (url, visit_type, last_failure, in_a_row) values ('https://gitlab.example/14', 'git', now(), 4);
		insert into scheduler_go.work (state, queue, home, task_id, task_name, args, kwargs, hosters) values
			('sent', 'swh.hg', 'swh.hg', '00000000-0000-0000-0000-000000000120', 'swh.hg', '[]', '{}', '{two}');
		insert into scheduler_go.work (queue, task_id, task_name, args, kwargs, attempts, last_error, not_before) values
			('swh.git', '00000000-0000-0000-0000-000000000108', 'swh.git', '[]', '{}', 0, null, '-infinity'),
			('swh.git', '00000000-0000-0000-0000-000000000109', 'swh.git', '[]', '{}', 3, 'no such queue', now() + interval '1 hour 30 seconds'),
			('swh.load-pypi', '00000000-0000-0000-0000-00000000010a', 'swh.load-pypi', '[]', '{"url": "https://unscheduled/"}', 0, null, '-infinity');
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update) values
			('00000000-0000-4000-8000-000000000003', 'https://three', 'git', '{}', false, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://two', 'git', '{}', true, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://two', 'nope', '{}', true, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://laned/runs', 'laned', '{}', true, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://laned/waits', 'laned', '{}', true, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://laned/new', 'laned', '{}', true, now(), now(), null),
			('00000000-0000-4000-8000-000000000003', 'https://new', 'hg', '{}', true, now(), now(), '2020-01-01'),
			('00000000-0000-4000-8000-000000000003', 'https://cooling', 'hg', '{}', true, now(), now(), '2020-01-01');
		insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, successive_visits, last_snapshot) values
			('https://three', 'git', '2026-01-01', '2026-01-02', 'failed', 3, null),
			('https://cooling', 'hg', now() - interval '1 hour', now() - interval '30 minutes', 'failed', 1, null),
			('https://gone', 'hg', '2026-01-01', '2026-01-02', 'successful', 1, '\x00')`)
	for range 3 {
		publish(t, channel, "swh.full")
	}

	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"101"}, []string{"Task 101 (load-git, recurring)", "It is to run at ", "(in 3 days)", "never been sent"}},
		{[]string{"102"}, []string{"ready to run since", "(3 h 0 min ago)", "No other ready task of its type", "has room: it holds 0 of at most 5000", "No start-runner"}},
		{[]string{"103"}, []string{"1 ready task of its type is taken before it"}},
		{[]string{"104"}, []string{"priority high: only start-runner --with-priority", "save_code_now:", "No other ready task of its type"}},
		{[]string{"105"}, []string{"disabled", "ended as failed at 2026-01-03", "ValueError: no", "no retries left", "task respawn 105"}},
		{[]string{"106"}, []string{"completed", "ended as eventful at", "task respawn 106"}},
		{[]string{"107"}, []string{"marked as scheduled, but no run of it is recorded"}},
		{[]string{"108"}, []string{"has not been sent yet", "is being sent since", "with 0 messages before it"}},
		{[]string{"109"}, []string{"rejected", "3 times (no such queue)", "(in 1 h 0 min)"}},
		{[]string{"110"}, []string{"no worker has begun it", "(1 h 0 min ago)", "given up at ", "(lost_after)"}},
		{[]string{"111"}, []string{"A worker runs it", "celery@here", "(5 min ago)"}},
		{[]string{"112"}, []string{"is to run at", "(in 10 min)", "ended as failed", "again", "2 more retries"}},
		{[]string{"113"}, []string{"is full: it holds 3 of at most 3 messages", "filled again when 1 more fit"}},
		{[]string{"114"}, []string{"waits in the backlog for a slot of lane slow.", "timed out on 1 lane", "since", "(5 min ago), with 0 before it", "lanes status load-laned"}},
		{[]string{"115"}, []string{"no worker has begun it", "on lane express, to queue express:swh.laned, at", "(5 min ago)", "Its time limit there is 1 min from when"}},
		{[]string{"116"}, []string{"ready to run", "It is sent on lanes", "lanes status load-laned"}},
		{[]string{"https://laned/runs"}, []string{"A worker runs its visit.", "on lane slow, to queue swh.laned", "is over at", "(in 49 min)"}},
		{[]string{"https://laned/waits"}, []string{"waits in the backlog for a slot of lane slow.", "with 1 before it"}},
		{[]string{"https://laned/new"}, []string{"can be picked for a visit now", "It is sent on lanes"}},
		{[]string{"https://three"}, []string{"Origin https://three (git), listed by empty (forge)", "is disabled", "3 in a row disable an origin"}},
		{[]string{"https://two"}, []string{"Origin https://two (git)", "due, and its hoster takes no more", "two takes no more visits now: 1 of its visits is in flight", "Origin https://two (nope)", "no task type load-nope",
			"Policy origins_without_last_update, which has weight", "number 1 in the policy's order", "Policy already_visited_order_by_lag picks origins that were loaded before"}},
		{[]string{"https://new", "--type", "hg"}, []string{"can be picked for a visit now", "Policy never_visited_oldest_update_first, which has weight", "No schedule-recurrent", "divided between groups by lister"}},
		{[]string{"https://cooling"}, []string{"is cooling down", "absolute cooldown", "failed cooldown", "(in 13 days)", "was failed"}},
		{[]string{"https://gone"}, []string{"No lister lists it", "was successful"}},
		{[]string{"https://unscheduled/"}, []string{"visit is scheduled, but the message has not been sent yet", "with 1 message before it"}},
		{[]string{"https://gitlab.example/14"}, []string{"is disabled", "Its last 4 visits failed or found nothing: 4 in a row disable an origin", "a visit without news moves it by 4 days, one with news by 2 days"}},
		{[]string{"https://gitlab.example/7"}, []string{"is disabled", "Its lister recorded it so"}},
		{[]string{"https://gitlab.example/2", "-t", "git"}, []string{"No policy of its visit type picks it", "changed since their last successful visit", "was not_found"}},
	} {
		r := ours(t, append([]string{"-C", config, "-l", "error", "explain"}, tc.args...)...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%q: exit code %d\n%s", tc.args, r.code, r.stderr)
		}
		for _, want := range tc.want {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%q: no %q in\n%s", tc.args, want, r.stdout)
			}
		}
	}
	if r := ours(t, "-C", config, "explain", "http://two.git"); r.code != 1 || !strings.Contains(r.stderr, "did you mean https://two?") {
		t.Errorf("another spelling: %+v", r)
	}
	for _, args := range [][]string{{"999"}, {"https://nowhere"}, {"https://two", "--type", "hg"}} {
		if r := ours(t, append([]string{"-C", config, "explain"}, args...)...); r.code != 1 || r.stdout != "" || r.stderr == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	var parsed []struct {
		Subject string
		Reasons []string
		When    *string
	}
	r := ours(t, "-C", config, "explain", "101", "--output", "json")
	if err := json.Unmarshal([]byte(r.stdout), &parsed); err != nil || len(parsed) != 1 || parsed[0].When == nil || len(parsed[0].Reasons) == 0 {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

// explain prints which tasks a task of a graph waits for.
func TestExplainGraph(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: \"amqp://127.0.0.1:1//\"}\n", dsn))
	execute(t, dsn, someTaskTypes)
	graph := configFile(t, "tasks:\n  - {name: first, type: bare}\n  - {name: second, type: bare, depends_on: [first]}\n  - {name: third, type: bare, depends_on: [second, {task: first, on: failed}]}\n")
	if r := ours(t, "-C", config, "task", "graph", "submit", graph); r.code != 0 {
		t.Fatal(r.stderr)
	}
	id := value(t, dsn, "select (max(id) - 1)::text from task")
	first := value(t, dsn, "select min(id)::text from task")
	r := ours(t, "-C", config, "-l", "error", "explain", id)
	if r.code != 0 || !strings.Contains(r.stdout, "waits for other tasks of graph 1, where it is called second") || !strings.Contains(r.stdout, "waits for task "+first+" (first of graph 1) to be completed") {
		t.Errorf("%+v", r)
	}
	third := value(t, dsn, "select max(id)::text from task")
	if r := ours(t, "-C", config, "-l", "error", "explain", third); r.code != 0 || !strings.Contains(r.stdout, "waits for task "+first+" (first of graph 1) to fail") {
		t.Errorf("%+v", r)
	}
	execute(t, dsn, "update task set status = 'completed' where id = "+first)
	if r := ours(t, "-C", config, "-l", "error", "explain", third); r.code != 0 || !strings.Contains(r.stdout, "waits for task "+id+" (second of graph 1)") ||
		!strings.Contains(r.stdout, "Task "+first+" (first of graph 1) is completed, and it needs another result: it will not run") {
		t.Errorf("%+v", r)
	}
	execute(t, dsn, "update task set status = 'next_run_not_scheduled' where id = "+first)
	// Without its broker, explain says so and exits with 0.
	if r := ours(t, "-C", config, "-l", "error", "explain", first); r.code != 0 || !strings.Contains(r.stdout, "The number of messages in its queue swh.bare is unknown") {
		t.Errorf("%+v", r)
	}
}
