package runner_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
)

// openWorld returns a world with a database without tasks. Its method slots sets its broker.
func openWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dsn: testenv.Database(t)}
	w.store = testenv.Open(t, w.dsn)
	return w
}

func (w *world) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	testenv.Exec(t, w.store.Pool(), statement, args...)
}

func (w *world) slots(t *testing.T) *dispatch.Slots {
	t.Helper()
	w.broker = testenv.RabbitMQ(t)
	return dispatch.NewSlots(w.store, inspectorOf(t, w.broker), func() {})
}

// inspectorOf returns an inspector of a broker's queues.
func inspectorOf(t *testing.T, broker testenv.Broker) *celery.QueueInspector {
	t.Helper()
	address := parsed.Broker(t, broker.URL)
	inspector := celery.NewQueueInspector(address, broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	return inspector
}

func (w *world) runner(t *testing.T, slots runner.Slots, withPriority bool) *runner.Runner {
	return runner.New(runner.Options{
		Store: w.store, Slots: slots, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
		WithPriority: withPriority,
	})
}

// oneFails is slots of which one queue's can't be counted.
type oneFails struct {
	runner.Slots
	queue string
}

func (s oneFails) OpenTogether(ctx context.Context, queues ...dispatch.Queue) (dispatch.Claims, error) {
	if slices.ContainsFunc(queues, func(q dispatch.Queue) bool { return q.Name == s.queue }) {
		return nil, errors.New("not now")
	}
	return s.Slots.OpenTogether(ctx, queues...)
}

// A task type whose claim fails doesn't delay the others, claimed for in the same transaction (with limits) or not. The
// pass returns its error. A queue that can't be observed doesn't delay them either.
func TestTypeThatFailsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"null", "10"} {
		w := openWorld(t)
		w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) select 'x' || n, '', 'swh.' || n, "+limit+" from generate_series(1, 9) n")
		w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
			select type, '{}', now(), '1 day', 'next_run_not_scheduled' from task_type where type ~ '^x'`)
		slots := oneFails{w.slots(t), "swh.1"}
		ch := testenv.Channel(t, w.broker.URL)
		if _, err := ch.QueueDeclare("swh.2", true, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		n, err := w.runner(t, slots, false).RunOnce(t.Context())
		if n != 7 || err == nil {
			t.Fatalf("limit %s: %d tasks claimed, %v, want 7 and an error", limit, n, err)
		}
		for _, want := range []string{`task type "x1": not now`, `task type "x2": count the free slots of queue "swh.2"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("limit %s: no %q in %v", limit, want, err)
			}
		}
		claimed := make(map[string]int)
		for i := range 7 {
			claimed[fmt.Sprint("x", i+3)] = 1
		}
		if diff := cmp.Diff(claimed, w.claimed(t, "type")); diff != "" {
			t.Errorf("limit %s (-want +got):\n%s", limit, diff)
		}
	}
}

// Queues that are claimed for together share the most tasks of a transaction, so that none waits for another's backlog.
func TestQueuesOfATransactionShareIt(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) select 'x' || n, '', 'swh.' || n, 5000 from generate_series(1, 5) n")
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
		select type, '{}', now(), '1 day', 'next_run_not_scheduled' from generate_series(1, 1010), unnest(array['x1', 'x2', 'x5']) type`)
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
		select type, '{}', now(), '1 day', 'next_run_not_scheduled' from unnest(array['x3', 'x4']) type`)
	r := w.runner(t, w.slots(t), false)
	for _, want := range []map[string]int{
		{"x1": 1000, "x2": 1000, "x3": 1, "x4": 1, "x5": 1010}, // 1 and 2, 3 and 4, 5 alone
		{"x1": 1010, "x2": 1010, "x3": 1, "x4": 1, "x5": 1010},
	} {
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.claimed(t, "type")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Tasks without priority wait until more than a fifth of their queue is free. Those with priority don't: they get the last
// slot, too.
func TestPriorityDoesNotWaitForAFifth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ held, without, with int }{{9, 0, 1}, {8, 0, 2}, {7, 3, 3}} {
		t.Run(fmt.Sprint(tc.held), func(t *testing.T) {
			t.Parallel()
			w := openWorld(t)
			w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('a', '', 'swh.a', 10)")
			w.exec(t, `insert into task (type, arguments, next_run, current_interval, status, priority)
				select 'a', '{}', now(), '1 day', 'next_run_not_scheduled', p from unnest(array['high', null]::task_priority[]) p, generate_series(1, 5)`)
			if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				var rows []ledger.Work
				for _, queue := range []string{"swh.a", "save_code_now:swh.a"} {
					for range tc.held {
						rows = append(rows, ledger.Work{Queue: queue, TaskID: uuid.New(), TaskName: "x", Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}")})
					}
				}
				return tx.AddWork(ctx, rows)
			}); err != nil {
				t.Fatal(err)
			}
			slots := w.slots(t)
			for withPriority, want := range map[bool]int{false: tc.without, true: tc.with} {
				if n, err := w.runner(t, slots, withPriority).RunOnce(t.Context()); n != want || err != nil {
					t.Errorf("with priority %v: %d claimed, %v, want %d", withPriority, n, err, want)
				}
			}
		})
	}
}

// A run is not silent if it was started recently or waits in a lane's backlog, however long ago it was scheduled.
// A run with an event since the sweep listed it is not lost.
func TestRunsWithEventsAreNotLost(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (id, type, arguments, next_run, current_interval, status)
		select n, 'a', '{}', now(), '1 day', 'next_run_scheduled' from generate_series(1, 4) n`)
	w.exec(t, `insert into task_run (task, backend_id, scheduled, started, status)
		select n, '00000000-0000-0000-0000-00000000000' || n, now() - interval '3 hours', case n when 1 then now() - interval '10 minutes' end,
		       (case n when 1 then 'started' else 'scheduled' end)::task_run_status from generate_series(1, 4) n`)
	w.exec(t, `insert into scheduler_go.work (task_id, state, lane_set, lane, since, claimed, task_name, args, kwargs, queue, home, memory, lister, first, behind)
		select id, 'backlog', 'a', 0, now(), now(), 'swh.a', '[]', '{}', 'swh.a', 'swh.a', 0, '', false, 0
		from (select '00000000-0000-0000-0000-000000000002'::uuid as id) x`)
	now := time.Now()
	var silent []ledger.SilentRun
	_, err := w.store.EachSilentRun(t.Context(), db.SilentRunSweep{Before: map[string]time.Time{"a": now.Add(-time.Hour)}, AtMost: time.Minute}, func(some []ledger.SilentRun) (int, error) {
		silent = append(silent, some...)
		return 0, nil
	})
	if err != nil || len(silent) != 2 {
		t.Fatalf("silent: %+v, %v, want the runs of tasks 3 and 4", silent, err)
	}
	w.exec(t, "update task_run set status = 'started', started = now() where task = 3")
	if n, err := w.store.LoseRuns(t.Context(), silent, now); n != 1 || err != nil {
		t.Errorf("%d runs lost, %v, want that of task 4", n, err)
	}
	if lost := testenv.Value[int](t, w.store.Pool(), "select task from task_run where status = 'lost'"); lost != 4 {
		t.Errorf("task %d's is lost", lost)
	}
}

// First visits of a lister that has changed since it was read are not done, because it may have listed new
// origins.
func TestListerThatChangedIsNotDone(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, `insert into listers (name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix)
		values ('gitea', 'forge', '{}', now() - interval '1 hour', now() - interval '1 day', 'first')`)
	read := func() (done bool, after func() (bool, error)) {
		listers, err := w.store.ListersWithFirstVisits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(listers) == 0 {
			return true, nil
		}
		return false, func() (bool, error) { return w.store.FinishFirstVisits(t.Context(), listers[0], time.Now()) }
	}
	_, finish := read()
	w.exec(t, "update listers set updated = now(), last_listing_finished_at = now()")
	if done, err := finish(); done || err != nil {
		t.Errorf("done %v, %v, though the lister has changed", done, err)
	}
	_, finish = read()
	if done, err := finish(); !done || err != nil {
		t.Errorf("done %v, %v, though all is scheduled", done, err)
	}
	if done, _ := read(); !done {
		t.Error("it is listed again")
	}
}

// Tasks with priority are not divided between groups: they neither make a group wait nor are claimed for one.
func TestGroupsHaveNoTasksWithPriority(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status, priority)
		select 'a', jsonb_build_object('kwargs', jsonb_build_object('owner', owner)), now() - interval '1 minute', '1 day', 'next_run_not_scheduled', priority::task_priority
		from (values ('x', 'high'), ('x', null), ('y', 'low')) v (owner, priority)`)
	for by, want := range map[model.ShareKey]map[string]int{
		"kwargs.owner":        {"x": 1, "y": 0},
		model.ShareByTaskType: {"a": 1},
	} {
		undo := errors.New("undone")
		err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			c := ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "swh.a"}, Queue: "swh.a", Now: time.Now()}
			if by != model.ShareByTaskType {
				waiting, err := tx.ReadyTaskGroups(ctx, c, by)
				if diff := cmp.Diff([]string{"x"}, waiting); diff != "" || err != nil {
					t.Errorf("waiting (-want +got):\n%s%v", diff, err)
				}
			}
			for group, n := range want {
				c.By, c.Groups = by, []ledger.TaskGroup{{Name: group, Count: 10, Cost: 1}}
				got, _, err := tx.ClaimTasks(ctx, c)
				if err != nil || got[0] != n {
					t.Errorf("by %s: %v of %q claimed, %v, want %d", by, got, group, err, n)
				}
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
	}
}

// A pass returns the number of all claimed tasks, also if groups divide the queue.
func TestSharedClaimsAreCounted(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
		select 'a', jsonb_build_object('kwargs', jsonb_build_object('owner', n % 2)), now(), '1 day', 'next_run_not_scheduled' from generate_series(1, 7) n`)
	slots := w.slots(t)
	for by, want := range map[model.ShareKey]int{"kwargs.owner": 7, model.ShareByTaskType: 5} {
		r := runner.New(runner.Options{
			Store: w.store, Slots: slots, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
			Shares: map[string]model.Shares{"a": {By: by, Default: 1, HalfLife: time.Hour}},
		})
		w.exec(t, "delete from scheduler_go.work")
		w.exec(t, "update task set status = 'next_run_not_scheduled', next_run = case when id in (select id from task order by id limit $1) then now() else now() + interval '1 day' end", want)
		if n, err := r.RunOnce(t.Context()); n != want || err != nil {
			t.Errorf("by %s: %d claimed, %v, want %d", by, n, err, want)
		}
	}
}

// An argument of any length can be that of a group: its task is created and claimed like others.
func TestGroupsOfLongArguments(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	shares := map[string]model.Shares{"a": {By: "kwargs.owner", Default: 1, HalfLife: time.Hour}}
	testenv.Migrate(t, w.dsn, migrate.Options{Shares: shares})
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.loader.package.of_some_kind.tasks.LoadThem')")
	for _, length := range []int{10, 2650, 10_000} {
		owner := make([]byte, length/2)
		_, _ = rand.Read(owner)
		w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
			values ('a', jsonb_build_object('kwargs', jsonb_build_object('owner', encode($1, 'hex'))), now() - interval '1 minute', '1 day', 'next_run_not_scheduled')`, owner)
	}
	r := runner.New(runner.Options{Store: w.store, Slots: w.slots(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(), Shares: shares})
	if n, err := r.RunOnce(t.Context()); n != 3 || err != nil {
		t.Errorf("%d claimed, %v, want 3", n, err)
	}
}

// claim claims all ready tasks of type a, in their order, and returns their first arguments with
// whether the last run of the task failed.
func (w *world) claim(t *testing.T) map[string]bool {
	t.Helper()
	tried := make(map[string]bool)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "swh.a"}, Queue: "swh.a", Now: w.store.Now(), Groups: []ledger.TaskGroup{{Count: 10}}, Tried: true})
		for _, m := range work {
			var args []string
			if err := json.Unmarshal(m.Args, &args); err != nil {
				return err
			}
			tried[args[0]] = m.Tried
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return tried
}

// A task counts as tried if its last run failed, whatever earlier runs did.
func TestTasksThatWereTried(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (id, type, arguments, next_run, current_interval, status)
		select n, 'a', json_build_object('args', json_build_array(name)), now(), '1 day', 'next_run_not_scheduled'
		from (values (1, 'never ran'), (2, 'failed'), (3, 'failed before'), (4, 'failed later'), (5, 'lost'), (6, 'failed for good')) v (n, name)`)
	w.exec(t, `insert into task_run (task, scheduled, ended, status) values
		(2, now() - interval '2 h', now(), 'failed'), (3, now() - interval '2 h', now(), 'failed'), (3, now() - interval '1 h', now(), 'eventful'),
		(4, now() - interval '2 h', now(), 'uneventful'), (4, now() - interval '1 h', now(), 'failed'), (5, now(), now(), 'lost'), (6, now(), now(), 'permfailed')`)
	w.exec(t, "update task set status = 'next_run_not_scheduled', next_run = now() - interval '1 min'") // of which the runs disabled one
	want := map[string]bool{"never ran": false, "failed": true, "failed before": false, "failed later": true, "lost": true, "failed for good": true}
	if diff := cmp.Diff(want, w.claim(t)); diff != "" {
		t.Errorf("tried (-want +got):\n%s", diff)
	}
}

// A claim skips tasks that another transaction has locked.
func TestClaimsDontWaitForLockedTasks(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
		select 'a', json_build_object('args', json_build_array(n::text)), now() - interval '1 min', '1 day', 'next_run_not_scheduled' from generate_series(1, 3) n`)
	locker := testenv.Begin(t, testenv.Connect(t, w.dsn))
	testenv.Exec(t, locker, "select from task where arguments #>> '{args,0}' = '2' for update")
	if diff := cmp.Diff(map[string]bool{"1": false, "3": false}, w.claim(t)); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

// slowLooks records from when on each pass looks for tasks, and makes looks so slow that a pass has time for one whole look.
type slowLooks struct {
	runner.Store
	from []map[string]time.Time
}

func (s *slowLooks) ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool, from map[string]time.Time) ([]string, error) {
	s.from = append(s.from, from)
	time.Sleep(50 * time.Millisecond)
	return s.Store.ReadyTaskTypes(ctx, now, withPriority, from)
}

// A pass may claim none of a type's ready tasks, or not all, without an empty queue as the cause: the queue is full, or a group
// is at its ceiling. Later passes look for all of them, as they were ready long ago.
func TestTasksThatWaitForSlotsAreLookedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		shares  map[string]model.Shares
		claimed int
	}{
		"full queue":           {nil, 0},
		"group at its ceiling": {map[string]model.Shares{"a": {By: "kwargs.owner", Default: 1, HalfLife: time.Hour, MaxInFlight: map[string]int{"x": 1}}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWorld(t)
			w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('a', '', 'swh.a', 10), ('b', '', 'swh.b', 10), ('c', '', 'swh.c', 10)")
			w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
				select 'a', '{"kwargs": {"owner": "x"}}', now() - interval '1 hour', '1 day', 'next_run_not_scheduled' from generate_series(1, 9)`)
			if tc.shares == nil {
				w.exec(t, "insert into scheduler_go.work (task_id, queue, task_name, args, kwargs) select gen_random_uuid(), 'swh.a', 'x', '[]', '{}' from generate_series(1, 9)")
			}
			store := &slowLooks{Store: w.store}
			r := runner.New(runner.Options{
				Store: store, Slots: w.slots(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(), Shares: tc.shares,
			})
			total := 0
			for range 5 {
				n, err := r.RunOnce(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				total += n
				if n > 0 { // it ends, so that the next pass claims another one
					w.exec(t, "delete from scheduler_go.work")
				}
			}
			if total != tc.claimed {
				t.Errorf("%d tasks were claimed, want %d", total, tc.claimed)
			}
			partial := 0
			for _, from := range store.from {
				partial += len(from)
				if at, ok := from["a"]; ok {
					t.Errorf("tasks are looked for from %s on, though an hour older ones wait", at)
				}
			}
			if partial == 0 {
				t.Error("every pass had time for whole looks of all types")
			}
		})
	}
}
