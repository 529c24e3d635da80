package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/tasks"
)

// sides are the Python scheduler's backend on a database that it created, and our Store on one that we
// created.
type sides struct {
	peer        *peer
	store       *db.Store   // one of stores
	stores      []*db.Store // one for each of pgx's query modes
	peers, ours *pgx.Conn   // for reading the tables
}

func newSides(t *testing.T) sides {
	t.Helper()
	peerDSN, dsn := testenv.PythonDatabase(t), testenv.Database(t)
	s := sides{peer: startPeer(t, peerDSN), peers: testenv.Connect(t, peerDSN), ours: testenv.Connect(t, dsn)}
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} { // the modes after the first are for PgBouncer
		s.stores = append(s.stores, testenv.OpenLocal(t, dsn+"?default_query_exec_mode="+mode))
	}
	return s
}

// steps does the same actions on both sides, one after the other, and compares the databases after each.
func (s sides) steps(t *rapid.T, compare func(*rapid.T), actions map[string]func(sides, *rapid.T)) {
	t.Helper()
	names := slices.Sorted(maps.Keys(actions))
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		s.store = rapid.SampledFrom(s.stores).Draw(t, "store")
		actions[rapid.SampledFrom(names).Draw(t, "action")](s, t)
		compare(t)
	}
}

// execute runs statements on both databases.
func (s sides) execute(t *rapid.T, statements string) {
	t.Helper()
	for _, conn := range []*pgx.Conn{s.peers, s.ours} {
		testenv.Exec(t, conn, statements)
	}
}

// same compares a query's rows on both databases.
func (s sides) same(t *rapid.T, query string) {
	t.Helper()
	var lines [2][]string
	for i, conn := range []*pgx.Conn{s.peers, s.ours} {
		lines[i] = testenv.Column[string](t, conn, "select r::text from ("+query+") r")
	}
	if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
		t.Fatalf("%s (-peer +ours):\n%s", query, diff)
	}
}

// The values to draw from are few, so that tasks and origins meet again.
var (
	drawnNames = rapid.SampledFrom([]string{"load-git", "load-hg", "list-é", `q'u"o\te`})
	drawnTimes = rapid.Custom(func(t *rapid.T) time.Time {
		hour := rapid.IntRange(-5, 5).Draw(t, "hour")
		return time.Date(2024, 2, 29, 12, 0, 0, rapid.SampledFrom([]int{0, 1000, 999_999_000}).Draw(t, "ns"), time.UTC).
			Add(time.Duration(hour) * time.Hour)
	})
	drawnDurations = rapid.SampledFrom([]time.Duration{
		0, time.Microsecond, time.Second, time.Hour, 36 * time.Hour, 64 * 24 * time.Hour,
		400*24*time.Hour + 3*time.Microsecond, -time.Hour, -25 * time.Hour,
	})
	drawnJSON = rapid.SampledFrom([]string{
		"1", "-0.5", "1e400", "12345678901234567890123", `"text"`, `"é\n\"\\ 😀<&>"`, "null", "true", "[]", `[1, [2, {"k": []}]]`,
		"{}", `{"b": 1, "a": {"x": null}}`,
	})
)

func maybe[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	value := g.Draw(t, label)
	return &value
}

// Task types that we create and read are the same as the Python scheduler's.
func TestTaskTypesAreThePeers(t *testing.T) {
	t.Parallel()
	s := newSides(t)
	seed.Check(t, func(t *rapid.T) {
		s.execute(t, "truncate task_type, task, task_run restart identity")
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			taskType := model.TaskType{
				Type: drawnNames.Draw(t, "type"), Description: drawnNames.Draw(t, "description"), BackendName: "b",
				DefaultInterval: maybe(t, drawnDurations, "default"), MinInterval: maybe(t, drawnDurations, "min"),
				MaxInterval: maybe(t, drawnDurations, "max"), RetryDelay: maybe(t, drawnDurations, "delay"),
				BackoffFactor:  maybe(t, rapid.SampledFrom([]float64{0, 1, 0.1, 1e15}), "factor"),
				MaxQueueLength: maybe(t, rapid.Int64(), "length"), NumRetries: maybe(t, rapid.Int64Range(-1, 9), "retries"),
			}
			s.peer.must(t, "create_task_type", map[string]any{"task_type": taggedTaskType(taskType)})
			s.store = rapid.SampledFrom(s.stores).Draw(t, "store")
			if err := s.store.CreateTaskType(t.Context(), taskType); err != nil {
				t.Fatal(err)
			}
		}
		s.same(t, "select * from task_type order by type")

		want := s.peer.must(t, "get_task_types", nil).([]any)
		sortBy(want, "type")
		types, err := s.store.TaskTypes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := plainList(t, types, plainTaskType)
		sortBy(got, "type")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("all (-peer +ours):\n%s", diff)
		}

		name := drawnNames.Draw(t, "name")
		one := s.peer.must(t, "get_task_type", map[string]any{"task_type_name": name})
		taskType, err := s.store.TaskType(t.Context(), name)
		switch {
		case one == nil:
			if !errors.Is(err, model.ErrUnknownTaskType) {
				t.Fatalf("unknown type: %v, want ErrUnknownTaskType", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if diff := cmp.Diff(one, asJSON(t, plainTaskType(taskType))); diff != "" {
				t.Fatalf("%s (-peer +ours):\n%s", name, diff)
			}
		}
	})
}

// Any interval that a database can hold has the same value as with the Python scheduler's driver.
func TestIntervalsReadAsThePeers(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	p, store, conn := startPeer(t, dsn), testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	intervals := []string{
		"0", "1 microsecond", "-1 microsecond", "1 day", "-1 day", "1 day -01:00", "25:00:00", "1 month", "-1 month",
		"11 months", "12 months", "13 months", "-13 months", "1 year", "2 years 3 months 4 days 05:06:07.000008",
		"-2 years 3 months -4 days 05:06:07.000008", "1 month -1 day", "291 years",
	}
	for i, interval := range intervals {
		testenv.Exec(t, conn, `insert into task_type (type, description, backend_name, default_interval)
			values ($1, $2, '', $2::text::interval)`, fmt.Sprintf("%02d", i), interval)
	}
	want := p.must(t, "get_task_types", nil).([]any)
	sortBy(want, "type")
	types, err := store.TaskTypes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plainList(t, types, plainTaskType)); diff != "" {
		t.Errorf("(-peer +ours):\n%s", diff)
	}
	// Longer intervals become the longest Duration.
	testenv.Exec(t, conn, "update task_type set min_interval = '10000 years', max_interval = '-10000 years'")
	long, err := store.TaskType(t.Context(), "00")
	if err != nil {
		t.Fatal(err)
	}
	if years := long.MinInterval.Hours() / 24 / 365; years < 290 {
		t.Errorf("10000 years read as %v years", years)
	}
	if years := long.MaxInterval.Hours() / 24 / 365; years > -290 {
		t.Errorf("-10000 years read as %v years", years)
	}
}

// Creating tasks (and skipping existing ones), finding, peeking at and moving them does the same as the
// Python scheduler, step by step.
func TestTasksAreThePeers(t *testing.T) {
	t.Parallel()
	s := newSides(t)
	seed.Check(t, func(t *rapid.T) {
		s.execute(t, `truncate task_type, task, task_run restart identity;
			insert into task_type (type, description, backend_name, default_interval, num_retries)
			values ('load-git', '', 'b', '1 day', 3), ('load-hg', '', 'b', '2 months', null)`)
		s.steps(t, func(t *rapid.T) { s.same(t, "select * from task order by id") }, map[string]func(sides, *rapid.T){
			"create tasks":  sides.createTasks,
			"search tasks":  sides.searchTasks,
			"get tasks":     sides.getTasks,
			"peek at tasks": sides.peekTasks,
			"set status":    sides.setStatus,
		})
	})
}

var (
	drawnTaskTypes  = rapid.SampledFrom([]string{"load-git", "load-git", "load-git", "load-hg", "load-hg", "load-hg", "none"})
	drawnStatuses   = rapid.SampledFrom([]model.TaskStatus{"next_run_not_scheduled", "next_run_scheduled", "completed", "disabled"})
	drawnPriorities = rapid.SampledFrom([]model.TaskPriority{"high", "normal", "low"})
	drawnPolicies   = rapid.SampledFrom([]model.TaskPolicy{model.Recurring, model.Oneshot})
)

func (s sides) createTasks(t *rapid.T) {
	var drawn []tasks.NewTask
	var peers []any
	for range rapid.IntRange(0, 8).Draw(t, "n") {
		task := tasks.NewTask{
			Type: drawnTaskTypes.Draw(t, "type"), NextRun: drawnTimes.Draw(t, "next run"),
			Policy: drawnPolicies.Draw(t, "policy"), RetriesLeft: maybe(t, rapid.Int64Range(0, 2), "retries"),
			Status: model.TaskNotScheduled,
		}
		if rapid.Bool().Draw(t, "priority?") {
			task.Priority = drawnPriorities.Draw(t, "priority")
		}
		if rapid.Bool().Draw(t, "status?") {
			task.Status = drawnStatuses.Draw(t, "status")
		}
		args, kwargs := "[]", "{}"
		if rapid.Bool().Draw(t, "args?") {
			args = "[" + drawnJSON.Draw(t, "arg") + "]"
			kwargs = `{"k": ` + drawnJSON.Draw(t, "kwarg") + `}`
		}
		if args == "[1e400]" || kwargs == `{"k": 1e400}` {
			args, kwargs = "[]", "{}" // Python reads it as infinity, which JSON lacks
		}
		task.Arguments = model.TaskArguments{Args: json.RawMessage(args), Kwargs: json.RawMessage(kwargs)}
		drawn = append(drawn, task)
		peers = append(peers, tagged("Task", map[string]any{
			"type": task.Type, "next_run": taggedTime(&task.NextRun), "policy": task.Policy, "status": task.Status,
			"retries_left": task.RetriesLeft, "priority": orNil(task.Priority),
			"arguments": tagged("TaskArguments", map[string]any{"args": task.Arguments.Args, "kwargs": task.Arguments.Kwargs}),
		}))
	}
	if peers == nil {
		peers = []any{}
	}
	want, class := s.peer.call(t, "create_tasks", map[string]any{"tasks": peers})
	got, err := s.store.CreateTasks(t.Context(), drawn)
	if class != "" {
		// If an unknown type breaks several rules, the Python scheduler reports any one of them.
		violation := class == "ForeignKeyViolation" || class == "NotNullViolation" || class == "CheckViolation"
		if !violation || !errors.Is(err, model.ErrUnknownTaskType) {
			t.Fatalf("the Python scheduler fails with %s, we with %v", class, err)
		}
		s.execute(t, `select setval('task_id_seq', (select coalesce(max(id), 0) + 1 from task))`) // failures use up ids
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.sameTasks(t, want, got)
}

func (s sides) sameTasks(t *rapid.T, want any, tasks []model.Task) {
	t.Helper()
	list := want.([]any)
	sortBy(list, "id")
	got := plainList(t, tasks, plainTask)
	sortBy(got, "id")
	if diff := cmp.Diff(list, got); diff != "" {
		t.Fatalf("(-peer +ours):\n%s", diff)
	}
}

// sameOrder compares the dates of tasks, in their order.
func (s sides) sameOrder(t *rapid.T, what string, want any, tasks []model.Task) {
	t.Helper()
	if diff := cmp.Diff(fieldOf(want.([]any), "next_run"), fieldOf(plainList(t, tasks, plainTask), "next_run")); diff != "" {
		t.Fatalf("%s (-peer +ours):\n%s", what, diff)
	}
}

func (s sides) searchTasks(t *rapid.T) {
	var f tasks.TaskFilter
	kwargs := map[string]any{}
	some := func(name string) bool { return rapid.Bool().Draw(t, name+"?") }
	if some("ids") {
		f.IDs = rapid.SliceOfN(rapid.Int64Range(1, 20), 0, 9).Draw(t, "ids")
		kwargs["task_id"] = f.IDs
	}
	if some("types") {
		f.Types = rapid.SliceOfN(drawnTaskTypes, 0, 2).Draw(t, "types")
		kwargs["task_type"] = f.Types
	}
	if some("statuses") {
		// The Python scheduler fails with a list of statuses, but accepts a single one.
		status := drawnStatuses.Draw(t, "status")
		f.Statuses, kwargs["status"] = []model.TaskStatus{status}, status
	}
	if some("priorities") {
		priority := drawnPriorities.Draw(t, "priority")
		f.Priorities, kwargs["priority"] = []model.TaskPriority{priority}, priority
	}
	if some("policy") {
		f.Policy = drawnPolicies.Draw(t, "policy")
		kwargs["policy"] = f.Policy
	}
	if some("before") {
		f.Before = drawnTimes.Draw(t, "before")
		kwargs["before"] = taggedTime(&f.Before)
	}
	if some("after") {
		f.After = drawnTimes.Draw(t, "after")
		kwargs["after"] = taggedTime(&f.After)
	}
	got, err := s.store.SearchTasks(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	s.sameTasks(t, s.peer.must(t, "search_tasks", kwargs), got)

	// With a limit, the Python scheduler's choice of tasks is arbitrary.
	f.Limit = rapid.IntRange(1, 4).Draw(t, "limit")
	kwargs["limit"] = f.Limit
	fewer, err := s.store.SearchTasks(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.peer.must(t, "search_tasks", kwargs).([]any); len(want) != len(fewer) {
		t.Fatalf("with limit %d: %d tasks, the Python scheduler finds %d", f.Limit, len(fewer), len(want))
	}
}

func (s sides) getTasks(t *rapid.T) {
	ids := rapid.SliceOfN(rapid.Int64Range(1, 20), 0, 9).Draw(t, "ids")
	got, err := s.store.Tasks(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	s.sameTasks(t, s.peer.must(t, "get_tasks", map[string]any{"task_ids": ids}), got)
}

func (s sides) peekTasks(t *rapid.T) {
	name, now := drawnTaskTypes.Draw(t, "type"), drawnTimes.Draw(t, "now")
	for method, peek := range map[string]func(context.Context, string, time.Time, int) ([]model.Task, error){
		"peek_ready_tasks": s.store.PeekReadyTasks, "peek_ready_priority_tasks": s.store.PeekReadyPriorityTasks,
	} {
		got, err := peek(t.Context(), name, now, 0)
		if err != nil {
			t.Fatal(err)
		}
		kwargs := map[string]any{"task_type": name, "timestamp": taggedTime(&now)}
		want := s.peer.must(t, method, kwargs)
		s.sameOrder(t, method, want, got)
		s.sameTasks(t, want, got)

		// With a limit, the Python scheduler's choice among tasks of the same time is arbitrary.
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		if got, err = peek(t.Context(), name, now, limit); err != nil {
			t.Fatal(err)
		}
		kwargs["num_tasks"] = limit
		s.sameOrder(t, fmt.Sprintf("%s with limit %d", method, limit), s.peer.must(t, method, kwargs), got)
	}
}

func (s sides) setStatus(t *rapid.T) {
	c := tasks.StatusChange{
		IDs:    rapid.SliceOfN(rapid.Int64Range(1, 20), 0, 4).Draw(t, "ids"),
		Status: drawnStatuses.Draw(t, "status"), OnlyDue: rapid.Bool().Draw(t, "only due"), Now: time.Now(),
	}
	kwargs := map[string]any{"task_ids": c.IDs, "status": c.Status, "except_completed_tasks": c.OnlyDue}
	if rapid.Bool().Draw(t, "next run?") {
		c.NextRun = drawnTimes.Draw(t, "next run")
		if rapid.Bool().Draw(t, "far") {
			c.NextRun = c.NextRun.AddDate(100, 0, 0)
		}
		kwargs["next_run"] = taggedTime(&c.NextRun)
	}
	s.peer.must(t, "set_status_tasks", kwargs)
	if err := s.store.SetTaskStatus(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// CreateTasks refuses arguments that are no list or object. In the database they would break the workers
// and the Python scheduler.
func TestCreateTasksRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for _, c := range []struct{ args, kwargs, says string }{
		{args: "{}", says: "positional arguments are not a JSON list"},
		{args: "[1", says: "positional arguments are not a JSON list"},
		{args: "[]]", says: "positional arguments are not a JSON list"},
		{kwargs: "[]", says: "keyword arguments are not a JSON object"},
		{kwargs: `{"a": }`, says: "keyword arguments are not a JSON object"},
		{kwargs: "null", says: "keyword arguments are not a JSON object"},
	} {
		_, err := store.CreateTasks(t.Context(), []tasks.NewTask{{
			Type: "t", Arguments: model.TaskArguments{Args: json.RawMessage(c.args), Kwargs: json.RawMessage(c.kwargs)},
		}})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q %q: %v, want %q", c.args, c.kwargs, err, c.says)
		}
	}
}

// Listers and listed origins that we record and read page by page are the same as the Python scheduler's,
// step by step.
func TestListedOriginsAreThePeers(t *testing.T) {
	t.Parallel()
	s := newSides(t)
	seed.Check(t, func(t *rapid.T) {
		s.execute(t, `truncate listers, listed_origins, scheduler_metrics;
			insert into listers (id, name, instance_name, current_state, created, updated, first_visits_queue_prefix)
			select ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'l', n::text, '{}', '2024-01-01', '2024-01-01', 'p'
			from generate_series(1, 3) n`)
		s.steps(t, func(t *rapid.T) {
			// first_seen, last_seen and updated depend on the clock.
			s.same(t, `select lister_id, url, visit_type, extra_loader_arguments, enabled, last_update, is_fork, forked_from_url,
					case when last_seen < '2025-01-01' then last_seen end from listed_origins order by lister_id, url, visit_type`)
			s.same(t, `select case when name = 'l' then id end, name, instance_name, current_state, last_listing_finished_at,
					first_visits_queue_prefix, first_visits_scheduled_at from listers order by name, instance_name`)
		}, map[string]func(sides, *rapid.T){
			"record":        sides.recordOrigins,
			"read":          sides.readOrigins,
			"create lister": sides.createLister,
			"update lister": sides.updateLister,
			"read listers":  sides.readListers,
		})
	})
}

var drawnListers = rapid.Custom(func(t *rapid.T) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", rapid.SampledFrom([]int{1, 1, 2, 2, 3, 3, 9}).Draw(t, "lister")))
})

func drawnURL(t *rapid.T) string { return fmt.Sprintf("u%d", rapid.IntRange(1, 6).Draw(t, "url")) }

func (s sides) recordOrigins(t *rapid.T) {
	var origins []model.ListedOrigin
	peers := []any{}
	for range rapid.IntRange(0, 9).Draw(t, "n") {
		o := model.ListedOrigin{
			ListerID: drawnListers.Draw(t, "lister"), URL: drawnURL(t),
			VisitType:            rapid.SampledFrom([]string{"git", "hg"}).Draw(t, "visit type"),
			ExtraLoaderArguments: json.RawMessage(rapid.SampledFrom([]string{"{}", `{"é": [1.5, null]}`}).Draw(t, "arguments")),
			Enabled:              rapid.Bool().Draw(t, "enabled"), LastSeen: drawnTimes.Draw(t, "last seen"),
			LastUpdate: maybe(t, drawnTimes, "last update"), IsFork: maybe(t, rapid.Bool(), "fork"),
			ForkedFromURL: maybe(t, drawnNames, "forked from"),
		}
		origins = append(origins, o)
		peers = append(peers, taggedListedOrigin(o))
	}
	keep := rapid.Bool().Draw(t, "keep last seen")
	want, class := s.peer.call(t, "record_listed_origins", map[string]any{"listed_origins": peers, "update_last_seen": !keep})
	got, err := s.store.RecordListedOrigins(t.Context(), origins, keep)
	if class != "" {
		if class != "ForeignKeyViolation" || !errors.Is(err, model.ErrUnknownLister) {
			t.Fatalf("the Python scheduler fails with %s, we with %v", class, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.sameOrigins(t, want, got, !keep)
}

// sameOrigins compares origins in their order, without times of the clock.
func (s sides) sameOrigins(t *rapid.T, want any, origins []model.ListedOrigin, seenNow bool) {
	t.Helper()
	got := plainList(t, origins, plainListedOrigin)
	for _, list := range [][]any{want.([]any), got} {
		for _, o := range list {
			o := o.(map[string]any)
			delete(o, "first_seen")
			if seenNow || o["last_seen"].(string) > "2025" {
				delete(o, "last_seen")
			}
		}
	}
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Fatalf("(-peer +ours):\n%s", diff)
	}
}

func (s sides) readOrigins(t *rapid.T) {
	var f origins.ListedOriginFilter
	kwargs := map[string]any{}
	if rapid.Bool().Draw(t, "of a lister") {
		f.ListerID = uuid.NullUUID{UUID: drawnListers.Draw(t, "lister"), Valid: true}
		kwargs["lister_id"] = taggedUUID(f.ListerID.UUID)
	}
	if rapid.Bool().Draw(t, "of URLs") {
		f.URLs = rapid.SliceOfN(rapid.Custom(drawnURL), 0, 3).Draw(t, "urls")
		kwargs["urls"] = f.URLs
	}
	f.Enabled = maybe(t, rapid.Bool(), "enabled")
	kwargs["enabled"] = f.Enabled
	f.Limit = 1000

	all, next, err := s.store.ListedOrigins(t.Context(), f)
	if err != nil || next != nil {
		t.Fatalf("one page: next %v, %v", next, err)
	}
	want := s.peer.must(t, "get_listed_origins", kwargs).(map[string]any)["results"].([]any)
	order := keysOfOrigins(plainList(t, all, plainListedOrigin))
	if diff := cmp.Diff(keysOfOrigins(want), order); diff != "" {
		t.Fatalf("order (-peer +ours):\n%s", diff)
	}
	// The Python scheduler's order of visit types of one URL is undefined.
	slices.SortStableFunc(want, func(a, b any) int {
		x, y := a.(map[string]any), b.(map[string]any)
		return strings.Compare(fmt.Sprint(x["lister_id"], x["url"], x["visit_type"]), fmt.Sprint(y["lister_id"], y["url"], y["visit_type"]))
	})
	slices.SortStableFunc(all, func(a, b model.ListedOrigin) int {
		return strings.Compare(fmt.Sprint(a.ListerID, a.URL, a.VisitType), fmt.Sprint(b.ListerID, b.URL, b.VisitType))
	})
	s.sameOrigins(t, want, all, true)

	// All pages together have each origin once.
	f.Limit = rapid.IntRange(1, 3).Draw(t, "limit")
	var paged []model.ListedOrigin
	for {
		page, next, err := s.store.ListedOrigins(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
		if f.After = next; next == nil {
			break
		}
	}
	if diff := cmp.Diff(order, keysOfOrigins(plainList(t, paged, plainListedOrigin))); diff != "" {
		t.Fatalf("order by pages of %d (-at once +by pages):\n%s", f.Limit, diff)
	}
	slices.SortStableFunc(paged, func(a, b model.ListedOrigin) int {
		return strings.Compare(fmt.Sprint(a.ListerID, a.URL, a.VisitType), fmt.Sprint(b.ListerID, b.URL, b.VisitType))
	})
	if diff := cmp.Diff(all, paged, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("by pages of %d (-at once +by pages):\n%s", f.Limit, diff)
	}
}

// keysOfOrigins returns the sort keys of origins.
func keysOfOrigins(origins []any) []string {
	keys := make([]string, len(origins))
	for i, o := range origins {
		o := o.(map[string]any)
		keys[i] = fmt.Sprint(o["lister_id"], " ", o["url"])
	}
	return keys
}

func (s sides) createLister(t *rapid.T) {
	name, instance := drawnNames.Draw(t, "name"), drawnNames.Draw(t, "instance")
	prefix := maybe(t, drawnNames, "prefix")
	want := s.peer.must(t, "get_or_create_lister", map[string]any{
		"name": name, "instance_name": instance, "first_visits_queue_prefix": prefix,
	}).(map[string]any)
	lister, err := s.store.GetOrCreateLister(t.Context(), name, instance, prefix)
	if err != nil {
		t.Fatal(err)
	}
	got := asJSON(t, plainLister(lister)).(map[string]any)
	for _, l := range []map[string]any{want, got} {
		delete(l, "id")
		delete(l, "created")
		delete(l, "updated")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-peer +ours):\n%s", diff)
	}
}

func (s sides) updateLister(t *rapid.T) {
	id := drawnListers.Draw(t, "lister")
	lister, err := s.store.ListerByID(t.Context(), id)
	var stored []any
	for _, l := range s.peer.must(t, "get_listers_by_id", map[string]any{"lister_ids": []string{id.String()}}).([]any) {
		stored = append(stored, l.(map[string]any))
	}
	if len(stored) == 0 {
		if !errors.Is(err, model.ErrUnknownLister) {
			t.Fatalf("unknown lister: %v, want ErrUnknownLister", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	peers := stored[0].(map[string]any)
	lister.InstanceName = rapid.SampledFrom([]string{lister.InstanceName, "other " + lister.InstanceName[:1]}).Draw(t, "instance")
	lister.CurrentState = json.RawMessage(`{"page": ` + rapid.SampledFrom([]string{"1", `"é"`, "[]"}).Draw(t, "state") + `}`)
	lister.LastListingFinishedAt = maybe(t, drawnTimes, "finished")
	lister.FirstVisitsQueuePrefix = maybe(t, drawnNames, "prefix")
	lister.FirstVisitsScheduledAt = maybe(t, drawnTimes, "scheduled")
	updated := peers["updated"]
	if rapid.Bool().Draw(t, "stale") {
		lister.Updated = lister.Updated.Add(-time.Microsecond)
		updated = "2000-01-01T00:00:00+00:00"
	}
	want, class := s.peer.call(t, "update_lister", map[string]any{"lister": tagged("Lister", map[string]any{
		"id": taggedUUID(id), "name": lister.Name, "instance_name": lister.InstanceName,
		"current_state": lister.CurrentState, "updated": tagged("datetime", updated), "created": tagged("datetime", peers["created"]),
		"last_listing_finished_at": taggedTime(lister.LastListingFinishedAt), "first_visits_queue_prefix": lister.FirstVisitsQueuePrefix,
		"first_visits_scheduled_at": taggedTime(lister.FirstVisitsScheduledAt),
	})})
	got, err := s.store.UpdateLister(t.Context(), lister)
	if class != "" {
		stale := class == "StaleData" && errors.Is(err, model.ErrStaleData)
		taken := class == "UniqueViolation" && err != nil && strings.Contains(err.Error(), "SQLSTATE 23505") // another lister has the name
		if !stale && !taken {
			t.Fatalf("the Python scheduler fails with %s, we with %v", class, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	plain := asJSON(t, plainLister(got)).(map[string]any)
	delete(plain, "updated")
	delete(want.(map[string]any), "updated")
	if diff := cmp.Diff(want, any(plain)); diff != "" {
		t.Fatalf("(-peer +ours):\n%s", diff)
	}
}

func (s sides) readListers(t *rapid.T) {
	listers, err := s.store.Listers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	due, err := s.store.ListersWithFirstVisits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := rapid.SliceOfN(drawnListers, 0, 4).Draw(t, "ids")
	some, err := s.store.ListersByID(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method string
		kwargs map[string]any
		ours   []model.Lister
	}{
		{"get_listers", nil, listers},
		{"get_listers", map[string]any{"with_first_visits_to_schedule": true}, due},
		{"get_listers_by_id", map[string]any{"lister_ids": ids}, some},
	} {
		want := s.peer.must(t, c.method, c.kwargs).([]any)
		got := plainList(t, c.ours, plainLister)
		for _, list := range [][]any{want, got} {
			for _, l := range list {
				l := l.(map[string]any)
				if l["name"] != "l" {
					delete(l, "id")
				}
				delete(l, "created")
				delete(l, "updated")
			}
			sortBy(list, "instance_name")
			sortBy(list, "name")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v (-peer +ours):\n%s", c.kwargs, diff)
		}
	}
}

// sortBy sorts maps by one of their fields, stably.
func sortBy(list []any, field string) {
	slices.SortStableFunc(list, func(a, b any) int {
		x, y := a.(map[string]any)[field], b.(map[string]any)[field]
		if n, ok := x.(float64); ok {
			return int(n - y.(float64))
		}
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
}

func fieldOf(list []any, field string) []any {
	values := make([]any, len(list))
	for i, v := range list {
		values[i] = v.(map[string]any)[field]
	}
	return values
}
