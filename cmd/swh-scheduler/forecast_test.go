package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/status"
	"swh-scheduler/internal/testenv"
)

// A sending daemon samples queues, groups' parts of them, and counts of origins. `forecast` prints the conclusions as a
// table and as JSON.
func TestForecast(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	file := configFile(t, `scheduler: {cls: postgresql, db: "`+dsn+`"}
celery: {task_broker: "`+mq.URL+`"}
rabbitmq: {management_url: "`+mq.ManagementURL+`"}
shares: {load-git: {by: lister_instance, weights: {a: 1}}}
`)
	execute(t, dsn, `
		insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 100);
		insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at)
			values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now(), now() - interval '40 days');
		insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			values ('00000000-0000-0000-0000-000000000001', 'git', now() - interval '1 hour', 1000, 900, 100, 50);
		insert into scheduler_go.figures (span, figure, name, part, since, samples, sums) values
			('hour', 'origins', 'git', '', date_trunc('hour', now()) - interval '4 days', 1, array[800, 900, 140, 50, extract(epoch from now() - interval '97 hours')])`)
	channel := testenv.Channel(t, mq.URL)
	testenv.Declare(t, channel, "swh.git", nil)
	for range 3 {
		if _, err := channel.Consume("swh.git", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r := ours(t, "-C", file, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := ours(t, "-C", file, "forecast"); r.code != 0 || !strings.Contains(r.stdout, "counted once only") {
		t.Errorf("before any sample: %+v", r)
	}
	runner := start(t, "-C", file, "start-runner", "--period", "1")
	conn := testenv.Connect(t, dsn)
	testenv.Becomes(t, "kinds of figures", 6, func() int {
		return testenv.Value[int](t, conn, "select count(distinct figure) from scheduler_go.figures where span = 'five' and name = ''")
	})
	runner.stop(t, syscall.SIGTERM)

	r := ours(t, "-C", file, "forecast", "--output", "json", "--visit-type", "git")
	var f status.Freshness
	if err := json.Unmarshal([]byte(r.stdout), &f); err != nil || len(f.Types) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	// There are 40 fewer unvisited origins than four days ago, and 150 lack a visit.
	if git := f.Types[0]; git.Verdict != freshness.VerdictGone || git.Backlog != 150 || git.GoneIn == nil || *git.GoneIn < 14.9*86400 || *git.GoneIn > 15.1*86400 || git.Consumers == nil || *git.Consumers != 3 {
		t.Errorf("%s", r.stdout)
	}
	if r := ours(t, "-C", file, "forecast", "--by", "in 3 days"); r.code != 0 || !strings.Contains(r.stdout, "gone in 15 days") || !strings.Contains(r.stdout, "WORKERS NEEDED") || !strings.Contains(r.stdout, "Listers that have stopped: gitea forge") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"--workers", "-1"}, {"--by", "whenever"}, {"git"}} {
		if r := ours(t, append([]string{"-C", file, "forecast"}, args...)...); r.code != 2 || r.stdout != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
