package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/tasks"
)

// manyTasks creates 500 tasks of the type common, more than the 200 that a page reads in these tests, and
// 50 of the type rare among them.
func manyTasks(t *testing.T, store *db.Store) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('common', '', 'c'), ('rare', '', 'r')")
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy, priority)
		select case when n % 11 = 1 then 'rare' else 'common' end,
			case when n % 3 = 0 then jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/' || n % 40))
				else jsonb_build_object('args', '[1]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/' || n % 1000, 'n', n % 7)) end,
			timestamptz '2030-01-01' + n * interval '1 minute', (enum_range(null::task_status))[1 + n % 4], 'oneshot',
			case when n % 20 = 0 then 'high'::task_priority end
		from generate_series(1, 550) n`)
	testenv.Exec(t, store.Pool(), "update task set next_run = 'infinity' where id = 40")
	testenv.Exec(t, store.Pool(), "analyze task")
}

// findAll returns the task numbers of all pages.
func findAll(t *testing.T, store *db.Store, f db.TaskSearch, limit int) (ids []int64) {
	t.Helper()
	for below := int64(0); ; {
		found, err := store.FindTasks(t.Context(), f, below, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range found.Tasks {
			ids = append(ids, task.ID)
		}
		if below = found.Next; below == 0 {
			return ids
		}
		if len(found.Tasks) < limit != found.Partial {
			t.Fatalf("a page of %d tasks of %d with more to come: partial is %v", len(found.Tasks), limit, found.Partial)
		}
	}
}

// The pages of any search together hold each matching task once, the newest first, with an index or
// without.
func TestTasksAreFound(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	manyTasks(t, store)
	rnd := seed.Rand(t)
	at := func(n int) *time.Time {
		return new(time.Date(2030, 1, 1, 0, n, 0, 0, time.UTC))
	}
	arguments := []string{`{"args": [], "kwargs": {"url": "https://example.org/36"}}`, `{"args": [1], "kwargs": {"n": 3}}`, `{"args": [], "kwargs": {}}`}
	for range 60 {
		var f db.TaskSearch
		var where []string
		some := func() bool { return rnd.IntN(3) == 0 }
		if some() {
			for range 30 {
				f.IDs = append(f.IDs, int64(rnd.IntN(600)))
			}
			where = append(where, "id in ("+strings.Trim(strings.ReplaceAll(fmt.Sprint(f.IDs), " ", ","), "[]")+")")
		}
		if some() {
			f.Types = []string{[]string{"common", "rare"}[rnd.IntN(2)]}
			where = append(where, "type = '"+f.Types[0]+"'")
		}
		if some() {
			f.Statuses = []model.TaskStatus{[]model.TaskStatus{model.TaskNotScheduled, model.TaskDisabled}[rnd.IntN(2)]}
			where = append(where, "status = '"+string(f.Statuses[0])+"'")
		}
		if some() {
			f.Priorities = []model.TaskPriority{model.PriorityHigh}
			where = append(where, "priority = 'high'")
		}
		if some() {
			f.After = at(rnd.IntN(500))
			where = append(where, "next_run < 'infinity' and next_run >= '"+f.After.Format(time.RFC3339)+"'")
		}
		if some() {
			f.Before = at(rnd.IntN(500))
			where = append(where, "next_run < '"+f.Before.Format(time.RFC3339)+"'")
		}
		if some() {
			f.Arguments, f.Containing = json.RawMessage(arguments[rnd.IntN(3)]), rnd.IntN(2) == 0
			where = append(where, "arguments "+map[bool]string{true: "@>", false: "="}[f.Containing]+" '"+string(f.Arguments)+"'")
		}
		want := testenv.Column[int64](t, store.Pool(), "select id from task where "+strings.Join(append(where, "true"), " and ")+" order by id desc")
		if got := findAll(t, store, f, 40+rnd.IntN(100)); !slices.Equal(got, want) {
			t.Errorf("%v: found %d tasks, want %d", where, len(got), len(want))
		}
	}
	// A task with an infinite date is in the list; a long text is cut.
	testenv.Exec(t, store.Pool(), `update task set arguments = jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('x', repeat('é', 1000))) where id = 40`)
	found, err := store.FindTasks(t.Context(), db.TaskSearch{IDs: []int64{40}}, 0, 10)
	if err != nil || len(found.Tasks) != 1 || found.Tasks[0].NextRun != nil || len([]rune(found.Tasks[0].Arguments)) != 300 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A page of origins starts at the prefix and leads to the next page, even if several listers and visit
// types share a URL.
func TestOriginsAreFound(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.ListN(t, store, 500)
	testenv.Exec(t, store.Pool(), `insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000002', 'm', 'j', '{}', now())`)
	testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000002', 'https://example.org/' || n, v, '{}', false, now(), 'infinity' from generate_series(1, 20) n, unnest('{git,hg}'::text[]) v`)
	testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) values ('https://example.org/11', 'hg', '2030-01-01', 'failed')`)
	for _, prefix := range []string{"https://example.org/1", "https://example.org/11", "https://example.org/", "https://example.com/", "https://example.org/%", ""} {
		want := testenv.Column[string](t, store.Pool(), "select url || visit_type || lister_id from listed_origins where starts_with(url, '"+prefix+"')")
		var got []string
		for after, pages := (*db.OriginPlace)(nil), 0; pages < 100; pages++ {
			found, next, err := store.FindOrigins(t.Context(), prefix, after, 70)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range found {
				got = append(got, o.URL+o.VisitType+o.ListerID.String())
				if o.URL == "https://example.org/11" && o.VisitType == "hg" && (o.Status == nil || *o.Status != model.VisitFailed || o.LastUpdate != nil || o.Lister != "m") {
					t.Errorf("%+v", o)
				}
			}
			if after = next; next == nil {
				break
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: (-want +got):\n%s", prefix, diff)
		}
	}
}

// takeSteps takes steps of actions until none is open.
func takeSteps(t *testing.T, store *db.Store, do func(ctx context.Context, tx *db.Tx, a db.Action, step db.Step) (int64, error)) {
	t.Helper()
	for {
		a, err := store.TakeStep(t.Context(), do)
		if err != nil {
			t.Error(err)
		}
		if a == nil {
			return
		}
	}
}

// An action on a filter's tasks is counted, waits for its confirmation, and changes each task once. That
// holds for any number of processes and failing steps. Tasks created since are left alone. The audit says
// who changed how many.
func TestActionsAreDoneOnce(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	manyTasks(t, store)
	on := db.ActionFilter{Tasks: &db.TaskSearch{Types: []string{"common"}, Statuses: []model.TaskStatus{model.TaskDisabled}}}
	matching := testenv.Value[int](t, store.Pool(), "select count(*) from task where type = 'common' and status = 'disabled'")
	a, err := store.BeginAction(t.Context(), "ana", "192.0.2.1", "respawn", on, true)
	if err != nil {
		t.Fatal(err)
	}
	takeSteps(t, store, func(context.Context, *db.Tx, db.Action, db.Step) (int64, error) {
		t.Error("a step changed tasks before the confirmation")
		return 0, nil
	})
	counted, err := store.Action(t.Context(), a.ID)
	if err != nil || counted.State != db.ActionCounted || counted.Matched != int64(matching) {
		t.Fatalf("%+v, %v, want %d counted", counted, err, matching)
	}
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy) values ('common', '{}', now(), 'disabled', 'oneshot')`)
	for _, first := range []bool{true, false} {
		if ok, err := store.ConfirmAction(t.Context(), a.ID, "bob, 192.0.2.2"); ok != first || err != nil {
			t.Fatalf("confirmed: %v, %v", ok, err)
		}
	}
	testenv.Exec(t, store.Pool(), "create table done (task bigint)")
	var m sync.Mutex
	tries := 0
	away := errors.New("the broker is away")
	id := a.ID
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				a, err := store.TakeStep(t.Context(), func(ctx context.Context, tx *db.Tx, a db.Action, step db.Step) (int64, error) {
					err := tx.SetTaskStatus(ctx, tasks.StatusChange{IDs: step.Tasks, Status: model.TaskNotScheduled})
					m.Lock()
					defer m.Unlock()
					if tries++; tries%3 == 1 {
						err = away
					}
					return int64(len(step.Tasks)), err
				})
				if err == nil && a == nil {
					if a, err = store.Action(t.Context(), id); err == nil && a.State != db.ActionRunning {
						return
					}
					time.Sleep(5 * time.Millisecond) // until the failed step is due again
				}
				if err != nil && !errors.Is(err, away) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	done, err := store.Action(t.Context(), a.ID)
	if err != nil || done.State != db.ActionDone || done.Changed != int64(matching) || done.Ended == nil || done.Who != "ana" || done.Address != "192.0.2.1" || done.ConfirmedBy != "bob, 192.0.2.2" || done.CancelledBy != "" || done.Result != "" {
		t.Errorf("%+v, %v, want %d changed", done, err, matching)
	}
	if left := testenv.Value[int](t, store.Pool(), "select count(*) from task where type = 'common' and status = 'disabled'"); left != 1 {
		t.Errorf("%d disabled tasks are left, want only the one that came later", left)
	}
}

// A cancelled action keeps its progress; a refused one has the reason; one on graphs goes graph by graph.
func TestActionsEnd(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) select '', now() from generate_series(1, 5)")
	begin := func(on db.ActionFilter) db.Action {
		t.Helper()
		a, err := store.BeginAction(t.Context(), "ana", "192.0.2.1", "cancel", on, false)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	check := func(id int64, state db.ActionState, changed int64, result string) {
		t.Helper()
		a, err := store.Action(t.Context(), id)
		if err != nil || a.State != state || a.Changed != changed || !strings.Contains(a.Result, result) {
			t.Errorf("%+v, %v; want it %s, %d changed, %q", a, err, state, changed, result)
		}
	}
	graphs := db.ActionFilter{Graphs: []int64{2, 5, 3, 9}}
	a := begin(graphs)
	var did []int64
	step := func(_ context.Context, _ *db.Tx, _ db.Action, step db.Step) (int64, error) {
		did = append(did, step.Graphs...)
		return 1, nil
	}
	takeSteps(t, store, step)
	if !slices.Equal(did, []int64{5, 3, 2}) {
		t.Errorf("did %v", did)
	}
	check(a.ID, db.ActionDone, 3, "")

	a = begin(graphs)
	if _, err := store.TakeStep(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		if ok, err := store.CancelAction(t.Context(), a.ID, "bob, 192.0.2.2"); ok != first || err != nil {
			t.Errorf("cancelled: %v, %v", ok, err)
		}
	}
	takeSteps(t, store, step)
	check(a.ID, db.ActionCancelled, 1, "")

	a = begin(graphs)
	if _, err := store.TakeStep(t.Context(), func(context.Context, *db.Tx, db.Action, db.Step) (int64, error) {
		return 0, errors.New("away")
	}); err == nil {
		t.Error("no error")
	}
	check(a.ID, db.ActionRunning, 0, "away")
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.actions where id = $1 and again > began", a.ID); n != 1 {
		t.Error("a failed step is repeated at once")
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.actions set again = '2100-01-01' where id = $1", a.ID)
	behind := begin(graphs) // a failing action doesn't block it
	takeSteps(t, store, step)
	check(behind.ID, db.ActionDone, 3, "")
	check(a.ID, db.ActionRunning, 0, "away")
	testenv.Exec(t, store.Pool(), "update scheduler_go.actions set again = now()")
	if _, err := store.TakeStep(t.Context(), func(ctx context.Context, tx *db.Tx, _ db.Action, _ db.Step) (int64, error) {
		_, err := tx.Raw.Exec(ctx, "select timestamptz '2030-01-01' + interval '1000000 years'")
		return 0, err
	}); err == nil {
		t.Error("no error")
	}
	check(a.ID, db.ActionFailed, 0, "out of range")

	long, short := begin(graphs), begin(db.ActionFilter{Graphs: []int64{1}})
	for range 2 {
		if _, err := store.TakeStep(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	check(long.ID, db.ActionRunning, 1, "")
	check(short.ID, db.ActionDone, 1, "") // it is done before a long one ends

	actions, err := store.Actions(t.Context(), behind.ID, 1)
	if err != nil || len(actions) != 1 || actions[0].ID != a.ID {
		t.Errorf("%+v, %v", actions, err)
	}
	if _, err := store.Forget(t.Context(), time.Now().Add(401*24*time.Hour), time.Minute); err != nil {
		t.Fatal(err)
	}
	if a, err := store.Action(t.Context(), a.ID); a != nil || err != nil {
		t.Errorf("%+v, %v is not deleted", a, err)
	}
}

// An action whose filter has an unknown condition waits for a newer program. Without that condition it
// would change more tasks.
func TestActionsOfNewerPrograms(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) values ('a', now())")
	a, err := store.BeginAction(t.Context(), "ana", "192.0.2.1", "cancel graph", db.ActionFilter{GraphSearch: &graphs.Search{Name: "a"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), `update scheduler_go.actions set filter = '{"graph_search": {"name": "a", "colour": "red"}}'`)
	_, err = store.TakeStep(t.Context(), func(context.Context, *db.Tx, db.Action, db.Step) (int64, error) {
		t.Error("it was done")
		return 0, nil
	})
	if err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Error(err)
	}
	if left, err := store.Action(t.Context(), a.ID); err != nil || left.State != db.ActionRunning {
		t.Errorf("%+v, %v", left, err)
	}
}

// A step on a graph may change the field that the search matches, and then fail. The action repeats the
// step for the same graph, and then continues with the others.
func TestGraphInHandIsNotForgotten(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted, cancelled) select 'g' || n, now(), now() from generate_series(1, 3) n")
	a, err := store.BeginAction(t.Context(), "ana", "192.0.2.1", "retry graph", db.ActionFilter{GraphSearch: &graphs.Search{State: "cancelled"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	var tried []int64
	away := errors.New("the broker is away")
	for {
		_, err := store.TakeStep(t.Context(), func(_ context.Context, _ *db.Tx, _ db.Action, step db.Step) (int64, error) {
			if tried = append(tried, step.Graphs...); len(tried) > 1 {
				return 1, nil
			}
			testenv.Exec(t, store.Pool(), "update scheduler_go.graphs set cancelled = null where id = "+fmt.Sprint(step.Graphs[0]))
			return 0, away
		})
		if err != nil && !errors.Is(err, away) {
			t.Fatal(err)
		}
		if a, err := store.Action(t.Context(), a.ID); err != nil || !a.Open() {
			if err != nil || a.Changed != 3 || a.State != db.ActionDone {
				t.Errorf("%+v, %v", a, err)
			}
			break
		}
		time.Sleep(5 * time.Millisecond) // until the failed step is due again
	}
	if want := []int64{3, 3, 2, 1}; !slices.Equal(tried, want) {
		t.Errorf("tried graphs %v, want %v", tried, want)
	}
}

// An action on graphs by state reads all tasks of each graph. A step reads at most 200 tasks, or one larger
// graph.
func TestActionsByGraphStateAreBounded(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('load-git', '', 'x')")
	sizes := []int{10, 500, 150, 0, 0, 150, 40, 20, 201, 199, 1}
	matching := int64(0)
	for i, size := range sizes {
		// In every other graph only the first task is open, and more tasks follow it.
		testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) values ('', now())")
		testenv.Exec(t, store.Pool(), fmt.Sprintf(`with t as (
			insert into task (type, arguments, next_run, status, policy)
			select 'load-git', '{}', now(), case when n = 1 and %[2]d %% 2 = 1 then 'next_run_not_scheduled' else 'completed' end::task_status, 'oneshot' from generate_series(1, %[1]d) n
			returning id)
			insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select %[2]d, id, id, false, 0 from t`, size, i+1))
		if i%2 == 0 && size > 0 {
			matching++
		}
	}
	a, err := store.BeginAction(t.Context(), "ana", "192.0.2.1", "cancel graph", db.ActionFilter{GraphSearch: &graphs.Search{State: "open"}}, true)
	if err != nil {
		t.Fatal(err)
	}
	for a.State == db.ActionCounting {
		before := a.Place
		after, err := store.TakeStep(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		a = *after
		tasks, graphs := 0, 0
		for graph := max(1, a.Place); graph < before; graph++ {
			if size := sizes[graph-1]; size > 0 {
				tasks, graphs = tasks+size, graphs+1
			}
		}
		if tasks > 200 && graphs > 1 || before-a.Place > 7 {
			t.Errorf("a step from graph %d down to %d read %d tasks", before, a.Place, tasks)
		}
	}
	if a.State != db.ActionCounted || a.Matched != matching {
		t.Errorf("%+v, want %d matched", a, matching)
	}
}
