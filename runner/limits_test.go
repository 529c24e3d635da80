package runner_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
)

// newLimitedWorld returns a world with one limited task type. Its tasks have the priorities low, none, normal and
// high in turn, and later ones are ready earlier.
func newLimitedWorld(t *testing.T, tasks, limit int) *world {
	t.Helper()
	w := newWorld(t)
	for _, statement := range []string{
		"truncate task_type, task cascade",
		fmt.Sprintf("insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.loader.git.tasks.Update', %d)", limit),
		fmt.Sprintf(`insert into task (type, arguments, next_run, current_interval, status, priority)
			select 'load-git', jsonb_build_object('args', jsonb_build_array(n), 'kwargs', '{}'::jsonb), '2026-01-01T00:00Z'::timestamptz - n * interval '1 second',
			       '1 day', 'next_run_not_scheduled', (array['low', null, 'normal', 'high'])[1 + n %% 4]::task_priority
			from generate_series(0, %d - 1) n`, tasks),
	} {
		testenv.Exec(t, w.store.Pool(), statement)
	}
	return w
}

// Claims and messages are ordered by priority high, normal, low. Within a priority, and without one, the task that
// has been ready longest comes first.
func TestClaimsInOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tasks        int
		withPriority bool
		queue        string
		want         [][]int // by claim
	}{
		"with priority": {16, true, "save_code_now:swh.loader.git.tasks.Update", [][]int{{15, 11, 7, 3, 14}, {10, 6, 2, 12, 8}, {4, 0}}},
		"without":       {32, false, "swh.loader.git.tasks.Update", [][]int{{29, 25, 21, 17, 13}, {9, 5, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLimitedWorld(t, tc.tasks, 5)
			for i, want := range tc.want {
				if n := w.runOurs(t, runner.Options{WithPriority: tc.withPriority}); n != len(want) {
					t.Fatalf("claim %d takes %d tasks, want %d", i, n, len(want))
				}
				var bodies []string
				for _, n := range want {
					bodies = append(bodies, fmt.Sprintf(`swh.loader.git.tasks.Update [[%d], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`, n))
				}
				if got := w.inOrder(t, []string{tc.queue}, func(string) {})[tc.queue]; !slices.Equal(got, bodies) {
					t.Errorf("claim %d sends\n%q, want\n%q", i, got, bodies)
				}
			}
		})
	}
}

// A full queue gets no message in any pass, whether its messages are ready or unacknowledged. After
// acknowledgements it is refilled to its limit.
func TestRunnerStaysWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit, prefetch = 20, 12
	for name, tc := range map[string]struct {
		withPriority bool
		queue        string
	}{
		"with priority": {true, "save_code_now:swh.loader.git.tasks.Update"},
		"without":       {false, "swh.loader.git.tasks.Update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLimitedWorld(t, 400, limit)
			ch := testenv.Channel(t, w.broker.URL)
			if err := ch.Qos(prefetch, 0, false); err != nil {
				t.Fatal(err)
			}
			claimed, acknowledged := 0, 0
			pass := func() int {
				t.Helper()
				n := w.runOurs(t, runner.Options{WithPriority: tc.withPriority})
				claimed += n
				if claimed-acknowledged > limit {
					t.Fatalf("the queue holds %d messages, its limit is %d", claimed-acknowledged, limit)
				}
				return n
			}
			full := func(where string) {
				t.Helper()
				for range 3 {
					if n := pass(); n != 0 {
						t.Fatalf("%d more are claimed, with all messages %s", n, where)
					}
				}
			}

			if n := pass(); n != limit {
				t.Fatalf("%d are claimed, want %d", n, limit)
			}
			full("ready")
			deliveries, err := ch.Consume(tc.queue, "", false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			deadline := time.After(time.Minute)
			var held []amqp.Delivery
			for range prefetch {
				select {
				case d := <-deliveries:
					held = append(held, d)
				case <-deadline:
					t.Fatalf("the worker holds %d messages after a minute", len(held))
				}
			}
			full("ready or held")
			for _, d := range held {
				if err := d.Ack(false); err != nil {
					t.Fatal(err)
				}
				acknowledged++
			}
			for began := time.Now(); pass() == 0; {
				if time.Since(began) > time.Minute {
					t.Fatal("no slot is refilled after a minute")
				}
			}
			for range 3 {
				pass()
			}
		})
	}
}
