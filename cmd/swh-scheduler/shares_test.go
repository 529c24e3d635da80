package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// On real services, three groups receive 30, 50 and 20 % of the work. Without work for the third, they receive 37.5 and
// 62.5 %. Once it has work, it receives 20 % without a burst. `shares status` prints these parts. A group with most of
// the weight stays below its ceiling.
func TestSharesOnARealWorker(t *testing.T) {
	t.Parallel()
	const limit = 100
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
shares: {work: {by: kwargs.owner, weights: {a: 30, b: 50, d: 900}, default: 20, max_in_flight: {d: 2}}}
`, dsn, mq.URL, mq.ManagementURL))
	conn := testenv.Connect(t, dsn)
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, conn, statement)
	}
	exec(fmt.Sprintf(`insert into task_type (type, description, backend_name, max_queue_length) values ('work', '', 'swh.test.Sleep', %d)`, limit))
	exec(`insert into task (type, arguments, next_run, status, policy)
		select 'work', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('owner', owner, 'seconds', 0.01)), now(), 'next_run_not_scheduled', 'oneshot'
		from unnest(array['a', 'b', 'c']) owner, generate_series(1, 5000) n`)

	// If shares lack a setting, the runner says what to do.
	start(t, "-C", config, "start-runner", "--period", "1").logs(t, "with this configuration")
	if err := <-start(t, "-C", config, "migrate").done; err != nil {
		t.Fatal(err)
	}
	start(t, "-C", config, "start-listener").logs(t, "started")
	startWorker(t, mq.URL, "worker@shares", "swh.test.Sleep")
	start(t, "-C", config, "start-runner", "--period", "1").logs(t, "started")

	// used returns the ended work: seconds by owner, and the number of messages.
	used := func() (seconds map[string]float64, pieces int) {
		t.Helper()
		seconds = map[string]float64{}
		for _, row := range testenv.Rows[struct {
			Owner   string
			Seconds float64
			Pieces  int
		}](t, conn, `select share_group, sum(seconds), sum(pieces)::int from (
			select share_group, seconds, pieces from scheduler_go.share_history
			union all select share_group, seconds, pieces from scheduler_go.share_charges) u group by 1`) {
			seconds[row.Owner], pieces = row.Seconds, pieces+row.Pieces
		}
		return seconds, pieces
	}
	after := func(n int) map[string]float64 {
		t.Helper()
		var seconds map[string]float64
		testenv.Becomes(t, "pieces", n, func() (pieces int) {
			seconds, pieces = used()
			return min(pieces, n)
		})
		return seconds
	}
	// want waits until each owner's part of the time is as wanted, over at least 250 messages after those now in the
	// queue. If one takes long on a busy machine, later claims compensate for it.
	want := func(phase string, want map[string]float64) {
		t.Helper()
		_, done := used()
		before := after(done + 2*limit)
		for pieces := 250; ; pieces += 100 {
			got, total := after(done+2*limit+pieces), 0.0
			for owner := range got {
				got[owner] -= before[owner]
				total += got[owner]
			}
			near := true
			for owner := range got {
				got[owner] /= total
				near = near && math.Abs(got[owner]-want[owner]) <= 0.06
			}
			if near {
				t.Logf("%s: of the worker's time, over %d pieces: %s", phase, pieces, percents(got))
				return
			}
			if pieces > 1200 {
				t.Errorf("%s: got %v, want %v", phase, got, want)
				return
			}
		}
	}
	want("all at work", map[string]float64{"a": 0.3, "b": 0.5, "c": 0.2})
	exec("update task set next_run = '2100-01-01' where status = 'next_run_not_scheduled' and arguments -> 'kwargs' ->> 'owner' = 'c'")
	want("c has nothing", map[string]float64{"a": 0.375, "b": 0.625, "c": 0})
	exec("update task set next_run = now() where status = 'next_run_not_scheduled' and arguments -> 'kwargs' ->> 'owner' = 'c'")
	want("c is back", map[string]float64{"a": 0.3, "b": 0.5, "c": 0.2})

	status := start(t, "-C", config, "shares", "status", "--output", "json")
	if err := <-status.done; err != nil {
		t.Fatal(status.log())
	}
	var groups []shareStatus
	if err := json.Unmarshal(status.stdout.Bytes(), &groups); err != nil || len(groups) != 4 {
		t.Fatalf("%v: %s", err, status.stdout.String())
	}
	for i, entitled := range []float64{0.3, 0.5, 0.2, 0} {
		g := groups[i]
		if math.Abs(g.Entitled-entitled) > 1e-9 || (g.MaxInFlight != nil) != (g.Group == "d") || g.Group != "d" && (g.Waiting == 0 || g.HourPieces < 50 || g.HourSeconds <= 0) {
			t.Errorf("group %d: %+v", i, g)
		}
	}
	table := start(t, "-C", config, "shares", "status", "work")
	if err := <-table.done; err != nil || !strings.Contains(table.stdout.String(), "swh.test.Sleep  b          50         0  50.0 %") {
		t.Errorf("%v: %s%s", err, table.stdout.String(), table.log())
	}
	exec(`insert into task (type, arguments, next_run, status, policy)
		select 'work', '{"args": [], "kwargs": {"owner": "d", "seconds": 0.01}}', now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 7) n`)
	_, pieces := used()
	testenv.Becomes(t, "tasks that ended", 7, func() (ended int) {
		var inFlight int
		if err := conn.QueryRow(t.Context(), `select count(*) filter (where status = 'completed'),
				(select count(*) from scheduler_go.work where share_group = 'd' and state <> 'settled')
			from task where arguments -> 'kwargs' ->> 'owner' = 'd'`).Scan(&ended, &inFlight); err != nil {
			t.Fatal(err)
		}
		if inFlight > 2 {
			t.Fatalf("%d messages in flight, of at most 2", inFlight)
		}
		return ended
	})
	if _, more := used(); more < pieces+7+10 {
		t.Errorf("beside 7 tasks below their ceiling, only %d others were done", more-pieces-7)
	}
	unknown := start(t, "-C", config, "shares", "status", "wrok")
	if err := <-unknown.done; err == nil || !strings.Contains(unknown.log(), "The configuration has no shares for task type wrok") {
		t.Errorf("%v: %s", err, unknown.log())
	}
}

// percents formats parts of a whole by name.
func percents(parts map[string]float64) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		fmt.Fprintf(&b, " %s %.1f %%", name, 100*parts[name])
	}
	return b.String()[1:]
}

// In a queue of 10 slots, one task doesn't wait for the 1,000 of another group, nor for ten groups. It begins after the
// messages in the queue and one slot of each other group. Without shares it would wait for all 1,000.
func TestSmallGroupsPassALargeOne(t *testing.T) {
	t.Parallel()
	const limit, large = 10, 1000
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
shares: {work: {by: kwargs.owner}}
`, dsn, mq.URL, mq.ManagementURL))
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, "insert into task_type (type, description, backend_name, max_queue_length) values ('work', '', 'swh.test.Sleep', $1)", limit)
	add := func(tasks int, owners ...string) {
		t.Helper()
		testenv.Exec(t, conn, `insert into task (type, arguments, next_run, status, policy)
			select 'work', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('owner', owner, 'seconds', 0.01)), now(), 'next_run_not_scheduled', 'oneshot'
			from unnest($1::text[]) owner, generate_series(1, $2) n`, owners, tasks)
	}
	add(large, "large")
	if err := <-start(t, "-C", config, "migrate").done; err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"start-listener"}, {"start-runner", "--period", "1"}} {
		start(t, append([]string{"-C", config}, args...)...).logs(t, "started")
	}
	worker := startWorker(t, mq.URL, "worker@small", "swh.test.Sleep")
	// begun returns the owners of the begun tasks, in order.
	begun := func() (owners []string) {
		t.Helper()
		for _, n := range worker.notes() {
			var kwargs struct{ Owner string }
			if err := json.Unmarshal(n.Kwargs, &kwargs); err != nil {
				t.Fatal(err)
			}
			owners = append(owners, kwargs.Owner)
		}
		return owners
	}
	testenv.Becomes(t, "the large group's work goes on", true, func() bool { return len(begun()) >= 2*limit })
	for _, groups := range [][]string{{"quick"}, {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}} {
		add(1, groups...)
		sent := testenv.Value[int](t, conn, "select count(*) from task_run")
		place := make(map[string]int)
		testenv.Becomes(t, "groups that have begun", len(groups), func() (n int) {
			for i, owner := range begun() {
				if slices.Contains(groups, owner) {
					place[owner] = i + 1
				}
			}
			return len(place)
		})
		last := slices.Max(slices.Collect(maps.Values(place)))
		t.Logf("%d groups of one task each: all have begun after %d more", len(groups), last-sent)
		if most := sent + 2*limit + len(groups); last > most {
			t.Errorf("of the groups %v the last began as the %dth, want the %dth at most", groups, last, most)
		}
	}
	if n := len(begun()); n >= large {
		t.Errorf("%d tasks have begun, so that nothing waited", n)
	}
}

// At its start, a daemon warns of names in the configuration that don't exist.
func TestSharesWarnOfUnknownNames(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
shares:
  load-git: {by: lister, weights: {githbu: 30}}
  load-gti: {by: task_type}
`, dsn, mq.URL, mq.ManagementURL))
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.loader.git', 50);
		insert into listers (name, instance_name, current_state, updated) values ('github', '', '{}', now())`)
	if err := <-start(t, "-C", config, "migrate").done; err != nil {
		t.Fatal(err)
	}
	p := start(t, "-C", config, "schedule-recurrent")
	p.logs(t, `msg="shares are configured for a task type that does not exist" name=load-gti did_you_mean=load-git`)
	p.logs(t, `msg="shares give a weight to a group that does not exist" name=githbu did_you_mean=github`)
}
