package runner_test

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// newShared returns a world with the tasks of the given statements only.
func newShared(t *testing.T, shares map[string]model.Shares, statements ...string) *world {
	t.Helper()
	w := newWorld(t)
	for _, statement := range append([]string{"truncate task, task_run, task_type"}, statements...) {
		testenv.Exec(t, w.store.Pool(), statement)
	}
	testenv.Migrate(t, w.dsn, migrate.Options{Shares: shares})
	return w
}

// claimed counts the tasks that were claimed, by an expression.
func (w *world) claimed(t *testing.T, by string) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for _, row := range testenv.Rows[struct {
		Group string
		N     int
	}](t, w.store.Pool(), "select "+by+", count(*) from task where status = 'next_run_scheduled' group by 1") {
		got[row.Group] = row.N
	}
	return got
}

// Tasks share a queue by a keyword argument: a bulk import doesn't delay another group's few later tasks. Within a
// group the task that has been ready longest comes first. Tasks without the argument are a group. Tasks with
// priority go first, undivided.
func TestTasksShareAQueue(t *testing.T) {
	t.Parallel()
	shares := map[string]model.Shares{"load": {By: "kwargs.owner", Weights: map[string]float64{"bulk": 1, "daily": 3}, Default: 1, HalfLife: time.Hour}}
	w := newShared(t, shares,
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load', '', 'swh.load', 100)",
		`insert into task (type, arguments, next_run, status, policy, priority)
		 select 'load', jsonb_build_object('args', '[]'::jsonb, 'kwargs', case when owner = '' then '{}' else jsonb_build_object('owner', owner) end),
		        '2026-01-01Z'::timestamptz + day * interval '1 day' + n * interval '1 second', 'next_run_not_scheduled', 'oneshot', priority
		 from (values ('bulk', 0, 500, null::task_priority), ('daily', 1, 60, null), ('', 2, 500, null), ('urgent', 3, 7, 'high')) v(owner, day, tasks, priority),
		      generate_series(1, tasks) n`)
	w.runOurs(t, runner.Options{Shares: shares, Period: time.Second})
	const owner = "coalesce(arguments -> 'kwargs' ->> 'owner', '')"
	if diff := cmp.Diff(map[string]int{"bulk": 20, "daily": 60, "": 20}, w.claimed(t, owner)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if late := testenv.Value[int](t, w.store.Pool(), `select count(*) from task t where status = 'next_run_not_scheduled' and priority is null
		and exists (select from task c where c.status = 'next_run_scheduled' and c.next_run > t.next_run and c.arguments -> 'kwargs' ->> 'owner' = t.arguments -> 'kwargs' ->> 'owner')`); late > 0 {
		t.Errorf("%d tasks were passed over by later ones of their group", late)
	}
	w.runOurs(t, runner.Options{Shares: shares, Period: time.Second, WithPriority: true})
	if n := w.claimed(t, owner)["urgent"]; n != 7 {
		t.Errorf("%d of 7 urgent tasks were claimed", n)
	}
	// What was claimed is in the ledger until it is heard to end; runs of urgent
	// tasks are not shared.
	if underway := testenv.Value[int](t, w.store.Pool(), `select count(*) from scheduler_go.work f join task_run r on r.backend_id = f.task_id::text where f.share_group is not null`); underway != 100 {
		t.Errorf("%d underway", underway)
	}
}

// Several task types share a queue with the limit of the type that is named.
func TestTaskTypesShareAQueue(t *testing.T) {
	t.Parallel()
	shares := map[string]model.Shares{"a": {By: model.ShareByTaskType, Weights: map[string]float64{"a": 2}, Default: 1, HalfLife: time.Hour}}
	w := newShared(t, shares,
		`insert into task_type (type, description, backend_name, max_queue_length) values
			('a', '', 'swh.index', 90), ('b', '', 'swh.index', 5000), ('c', '', 'swh.index', null), ('d', '', 'swh.other', 10)`,
		`insert into task (type, arguments, next_run, status, policy)
		 select type, '{"args": [], "kwargs": {}}', '2026-01-01Z', 'next_run_not_scheduled', 'oneshot'
		 from (values ('a', 100), ('b', 100), ('c', 10), ('d', 100)) v(type, tasks), generate_series(1, tasks) n`)
	w.runOurs(t, runner.Options{Shares: shares, Period: time.Second})
	// 45 to 22.5 and 22.5; what c has not goes to the others.
	got := w.claimed(t, "type")
	if got["a"] < 53 || got["a"] > 54 || got["a"]+got["b"] != 80 || got["c"] != 10 || got["d"] != 10 {
		t.Errorf("got %v", got)
	}
}

// A group keeps its credit in passes that don't read its work: those of a runner of other task types.
func TestGroupsOutsideAPassKeepTheirCredit(t *testing.T) {
	t.Parallel()
	shares := map[string]model.Shares{"a": {By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour}}
	w := newShared(t, shares,
		`insert into task_type (type, description, backend_name, max_queue_length) values ('a', '', 'swh.index', 1000), ('b', '', 'swh.index', null)`,
		`insert into task (type, arguments, next_run, status, policy)
		 select type, '{"args": [], "kwargs": {}}', '2026-01-01Z', 'next_run_not_scheduled', 'oneshot'
		 from unnest(array['a', 'b']) type, generate_series(1, 1000) n`)
	pass := func(limit int, types ...string) {
		t.Helper()
		w.exec(t, "update task_type set max_queue_length = $1 where type = 'a'", limit)
		o := runner.Options{Store: w.store, Slots: w.slots(t), Log: slog.New(slog.DiscardHandler), Reg: prometheus.NewRegistry(), Shares: shares, TaskTypes: types}
		if _, err := runner.New(o).RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass(20)       // 10 of each
	pass(120, "a") // 100 of a: b is behind, and still has work waiting
	pass(220)
	got := w.claimed(t, "type")
	if diff := cmp.Diff(map[string]int{"a": 110, "b": 110}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Passes may leave groups out in any pattern. Once a pass reads all groups and has the slots, each group has its
// share of all claims. No pass leaves a slot free while work waits, if the queue is worth refilling, and none
// exceeds the free slots.
func TestCreditOutlastsAnyPasses(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	types := []string{"a", "b", "c"}
	for range 3 {
		weights := map[string]float64{}
		for _, name := range types {
			weights[name] = float64(1 + random.IntN(4))
		}
		shares := map[string]model.Shares{"a": {By: model.ShareByTaskType, Weights: weights, Default: 1, HalfLife: 1000 * time.Hour}}
		w := newShared(t, shares,
			`insert into task_type (type, description, backend_name, max_queue_length) select t, '', 'swh.index', null from unnest(array['a', 'b', 'c']) t`,
			`insert into task (type, arguments, next_run, status, policy)
			 select type, '{"args": [], "kwargs": {}}', '2026-01-01Z', 'next_run_not_scheduled', 'oneshot'
			 from unnest(array['a', 'b', 'c']) type, generate_series(1, 4000) n`)
		limit := 0
		pass := func(slots int, looked ...string) (got map[string]int) {
			t.Helper()
			limit += slots
			testenv.Exec(t, w.store.Pool(), "update task_type set max_queue_length = $1 where type = 'a'", limit)
			o := runner.Options{Store: w.store, Slots: w.slots(t), Log: slog.New(slog.DiscardHandler), Reg: prometheus.NewRegistry(), Shares: shares, TaskTypes: looked}
			if _, err := runner.New(o).RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			got = w.claimed(t, "type")
			if n := got["a"] + got["b"] + got["c"]; n != limit {
				t.Fatalf("%v: %d claimed of %d slots", looked, n, limit)
			}
			return got
		}
		pass(30, "a", "b", "c")
		most := 0.0
		for range 4 {
			random.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
			got := pass(max(20+random.IntN(60), limit/2), append([]string{"a"}, types[:1+random.IntN(3)]...)...)
			for name, n := range got {
				most = max(most, float64(n)/weights[name])
			}
		}
		all := weights["a"] + weights["b"] + weights["c"]
		got := pass(max(0, int(math.Ceil(most*all))-limit)+limit/2+30, "a", "b", "c")
		for name, weight := range weights {
			if want := float64(limit) * weight / all; math.Abs(float64(got[name])-want) > 2 {
				t.Errorf("weights %v: claimed %v, want %.1f of %s", weights, got, want, name)
			}
		}
	}
}

// Work without events is given up, oldest first, if it can't be in the queue, or if it is older than a week.
func TestWorkWithoutEventsIsGivenUp(t *testing.T) {
	t.Parallel()
	q := dispatch.SharedQueue{Name: "swh.load", Shares: model.Shares{By: "kwargs.owner", Default: 1, HalfLife: time.Hour}}
	shares := map[string]model.Shares{"load": q.Shares}
	w := newShared(t, shares,
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load', '', 'swh.load', 100)",
		`insert into task (type, arguments, next_run, status, policy)
		 select 'load', '{"args": [], "kwargs": {}}', '2026-01-01Z', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 100)`)
	w.runOurs(t, runner.Options{Shares: shares, Period: time.Second})
	underway := func() int {
		t.Helper()
		return testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.work where state <> 'settled'")
	}
	keeper := w.unheard(t)
	look := func(later time.Duration) {
		t.Helper()
		if _, err := keeper.GiveUp(t.Context(), time.Now().Add(later)); err != nil {
			t.Fatal(err)
		}
	}
	look(time.Hour)
	if n := underway(); n != 100 {
		t.Errorf("%d of 100 underway, all of which are in the queue", n)
	}
	w.bodies(t, []string{"swh.load"}) // a worker took them, and told nobody
	look(time.Minute)
	if n := underway(); n != 100 {
		t.Errorf("%d of 100 underway a minute later: their events may be on the way", n)
	}
	// Not before the management API has counts of the queue, which is new. A look finds them out of their queue; a later
	// one gives them up.
	testenv.Becomes(t, "underway after an hour of silence", 0, func() int {
		look(time.Hour)
		look(2 * time.Hour)
		return underway()
	})
	err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		states, err := tx.Shares(ctx, q.Name, time.Now().Add(time.Hour), time.Hour)
		if err == nil && (states[""] == nil || states[""].Used < 90) {
			t.Errorf("given up without being charged: %+v", states[""])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
