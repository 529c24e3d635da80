package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// startPeer starts the Python scheduler's RPC server on a database and gives its URL.
func startPeer(t testing.TB, dsn string) string {
	t.Helper()
	return "http://127.0.0.1:" + testenv.StartScript(t, nil, "-W", "ignore", "testdata/peer_server.py", dsn).Line(t)
}

type tagged struct {
	name  string
	value any
}

func object(class string, fields map[string]any) any {
	fields["__type__"] = class
	return tagged{"scheduler_model", fields}
}

var (
	listerIDs = []uuid.UUID{uuid.MustParse("00000000-0000-4000-8000-000000000001"), uuid.MustParse("00000000-0000-4000-8000-000000000002")}

	drawnTimes = rapid.Custom(func(t *rapid.T) any {
		return time.Date(2024, 3, 1, 12, 0, 0, rapid.SampledFrom([]int{0, 1000, 999_999_000}).Draw(t, "ns"), time.UTC).
			Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "hours")) * time.Hour)
	})
	drawnTypes     = rapid.SampledFrom([]any{"load-git", "load-hg", "unknown"})
	drawnURLs      = rapid.SampledFrom([]any{"https://a", "https://b", "https://c", "https://é"})
	drawnVisits    = rapid.SampledFrom([]any{"git", "hg"})
	drawnIDs       = rapid.Custom(func(t *rapid.T) any { return rapid.IntRange(0, 12).Draw(t, "id") })
	drawnIDLists   = listOf(drawnIDs, 4)
	drawnBackends  = rapid.SampledFrom([]any{"run-1", "run-2", "run-3"})
	drawnObjects   = rapid.SampledFrom([]any{map[string]any{}, map[string]any{"k": []any{1, 2.5, nil, "é"}}})
	drawnTimedelta = rapid.SampledFrom([]any{time.Duration(0), time.Hour, 400*24*time.Hour + time.Microsecond, -time.Hour})
	drawnListers   = rapid.Custom(func(t *rapid.T) any { return rapid.SampledFrom(listerIDs).Draw(t, "lister") })
	drawnBools     = rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") })
	// Rows with the same date come in no certain order, so a limit takes all or none;
	// order_test.go has those that take some.
	drawnLimits   = rapid.SampledFrom([]any{nil, 0, 1000})
	drawnStatuses = rapid.SampledFrom([]any{"next_run_not_scheduled", "next_run_scheduled", "completed", "disabled"})

	// What does not belong where it is put.
	drawnOddities = rapid.SampledFrom([]any{nil, 0, -1, 7, "", "x", "12", []any{}, []any{nil}, []any{"x"}, map[string]any{}, true, 1.5, []byte{0},
		tagged{"nobody", "knows"}, time.Hour, listerIDs[0]})
)

func listOf(g *rapid.Generator[any], most int) *rapid.Generator[any] {
	_ = g.String() // drawing a list writes it, which tests at the same time read without a lock
	return rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(g, 0, most).Draw(t, "list") })
}

func optionally(g *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.OneOf(g, rapid.Just[any](nil))
}

// model is a generator of objects of a class.
func modelFrom(class string, fields map[string]*rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		drawn := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			drawn[name] = fields[name].Draw(t, name)
		}
		return object(class, drawn)
	})
}

type generators = map[string]*rapid.Generator[any]

var (
	drawnTaskTypes = modelFrom("TaskType", generators{
		"type": rapid.SampledFrom([]any{"load-git", "load-hg", "list-x"}), "description": drawnURLs, "backend_name": drawnURLs,
		"default_interval": optionally(drawnTimedelta), "max_interval": optionally(drawnTimedelta),
		"backoff_factor": rapid.SampledFrom([]any{nil, 1.0, 0.5}), "max_queue_length": rapid.SampledFrom([]any{nil, 1, 1 << 40}),
	})
	drawnTasks = modelFrom("Task", generators{
		"type": rapid.SampledFrom([]any{"load-git", "load-hg"}), "next_run": drawnTimes,
		"arguments": modelFrom("TaskArguments", generators{"args": listOf(drawnURLs, 2), "kwargs": drawnObjects}),
		"status":    drawnStatuses, "policy": rapid.SampledFrom([]any{"recurring", "oneshot"}),
		"priority": rapid.SampledFrom([]any{nil, "high", "low"}), "retries_left": rapid.SampledFrom([]any{nil, 0, 3}),
	})
	drawnRuns = modelFrom("TaskRun", generators{
		"task": drawnIDs, "backend_id": optionally(drawnBackends), "scheduled": optionally(drawnTimes), "metadata": optionally(drawnObjects),
	})
	drawnOrigins = modelFrom("ListedOrigin", generators{
		"lister_id": drawnListers, "url": drawnURLs, "visit_type": drawnVisits, "extra_loader_arguments": drawnObjects,
		"last_update": optionally(drawnTimes), "enabled": drawnBools, "is_fork": optionally(drawnBools),
		"forked_from_url": optionally(drawnURLs), "last_seen": drawnTimes,
	})
	drawnStats = modelFrom("OriginVisitStats", generators{
		"url": drawnURLs, "visit_type": drawnVisits, "last_successful": optionally(drawnTimes), "last_visit": optionally(drawnTimes),
		"last_visit_status": rapid.SampledFrom([]any{nil, "failed", "not_found", tagged{"last_visit_status", "successful"}}),
		"last_scheduled":    optionally(drawnTimes), "last_snapshot": rapid.SampledFrom([]any{nil, make([]byte, 20)}),
		"next_visit_queue_position": rapid.SampledFrom([]any{nil, 0, 1 << 40}), "next_position_offset": drawnIDs,
	})
)

// drawnCalls are the arguments of the calls. Those of the required parameters
// are always there, unless a call is made odd.
var drawnCalls = map[string]generators{
	"task_type/create":  {"task_type": drawnTaskTypes},
	"task_type/get":     {"task_type_name": drawnTypes},
	"task_type/get_all": {},
	"task/create":       {"tasks": listOf(drawnTasks, 3), "policy": rapid.SampledFrom([]any{"recurring", "oneshot"})},
	"task/set_status": {"task_ids": drawnIDLists, "status": drawnStatuses, "next_run": optionally(drawnTimes),
		"except_completed_tasks": drawnBools},
	"task/disable": {"task_ids": drawnIDLists},
	"task/search": {"task_id": rapid.OneOf(drawnIDs, drawnIDLists), "task_type": rapid.OneOf(drawnTypes, listOf(drawnTypes, 2)),
		"status": rapid.OneOf(drawnStatuses, listOf(drawnStatuses, 2)), "priority": rapid.SampledFrom([]any{nil, "high", []any{"low", "high"}}),
		"policy": rapid.SampledFrom([]any{nil, "recurring", "oneshot"}), "before": optionally(drawnTimes), "after": optionally(drawnTimes), "limit": drawnLimits},
	"task/get":                      {"task_ids": drawnIDLists},
	"task/peek_ready":               {"task_type": drawnTypes, "timestamp": optionally(drawnTimes), "num_tasks": drawnLimits},
	"task/grab_ready":               {"task_type": drawnTypes, "timestamp": optionally(drawnTimes), "num_tasks": rapid.SampledFrom([]any{nil, 0, 1000})},
	"task/peek_ready_with_priority": {"task_type": drawnTypes, "timestamp": optionally(drawnTimes), "num_tasks": drawnLimits},
	"task/grab_ready_with_priority": {"task_type": drawnTypes, "timestamp": optionally(drawnTimes), "num_tasks": drawnLimits},
	"task_run/schedule_one":         {"task_id": drawnIDs, "backend_id": drawnBackends, "metadata": optionally(drawnObjects), "timestamp": optionally(drawnTimes)},
	"task_run/schedule":             {"task_runs": listOf(drawnRuns, 3)},
	"task_run/start":                {"backend_id": drawnBackends, "metadata": optionally(drawnObjects), "timestamp": drawnTimes},
	"task_run/end": {"backend_id": drawnBackends, "status": rapid.SampledFrom([]any{"eventful", "uneventful", "failed", "permfailed"}),
		"metadata": optionally(drawnObjects), "timestamp": drawnTimes},
	// The Python scheduler deletes runs by the numbers of tasks too: see the package comment.
	"task/delete_archived": {"task_ids": listOf(rapid.Custom(func(t *rapid.T) any {
		id := drawnIDs.Draw(t, "id")
		return map[string]any{"task_id": id, "task_run_id": id}
	}), 3)},
	"task/filter_for_archive": {"after_ts": rapid.Just[any]("2024-03-01"), "before_ts": rapid.Just[any]("2024-03-02T00:00:00+00:00"), "limit": rapid.SampledFrom([]any{10, 1000})},
	"task_run/get":            {"task_ids": drawnIDLists},
	"listers/get":             {"with_first_visits_to_schedule": drawnBools},
	"listers/get_by_id":       {"lister_ids": listOf(rapid.OneOf(drawnListers, rapid.Just[any](listerIDs[0].String())), 2)},
	"lister/get":              {"name": rapid.SampledFrom([]any{"gitlab", "gitea"}), "instance_name": rapid.SampledFrom([]any{nil, "", "i"})},
	"lister/get_or_create": {"name": rapid.SampledFrom([]any{"gitlab", "gitea", "new"}), "instance_name": rapid.SampledFrom([]any{nil, "", "i"}),
		"first_visits_queue_prefix": rapid.SampledFrom([]any{nil, "p", "q"})},
	"lister/update": {"lister": modelFrom("Lister", generators{
		"id": drawnListers, "name": drawnURLs, "instance_name": drawnURLs, "current_state": drawnObjects,
		"created": drawnTimes, "updated": rapid.SampledFrom([]any{time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC), nil}),
		"last_listing_finished_at": optionally(drawnTimes), "first_visits_queue_prefix": optionally(drawnURLs), "first_visits_scheduled_at": optionally(drawnTimes),
	})},
	"origins/record": {"listed_origins": listOf(drawnOrigins, 4), "update_last_seen": drawnBools},
	"origins/get": {"lister_id": optionally(drawnListers), "url": optionally(drawnURLs), "urls": optionally(listOf(drawnURLs, 2)),
		"enabled": rapid.SampledFrom([]any{nil, true, false}), "limit": rapid.SampledFrom([]any{100, 1000}), "page_token": rapid.SampledFrom([]any{nil, []any{listerIDs[0].String(), "https://b"}})},
	"lister/visit_types": {"lister": modelFrom("Lister", generators{"id": drawnListers, "name": drawnURLs, "instance_name": drawnURLs})},
	"origins/grab_next": {"visit_type": drawnVisits, "count": rapid.Just[any](100),
		"policy": rapid.SampledFrom([]any{"oldest_scheduled_first", "stop_after_success", "never_visited_oldest_update_first",
			"already_visited_order_by_lag", "origins_without_last_update", "first_visits_after_listing", "nonsense"}),
		"enabled": drawnBools, "lister_uuid": optionally(rapid.Just[any](listerIDs[0].String())), "lister_name": rapid.SampledFrom([]any{nil, "gitlab", "nobody"}),
		"lister_instance_name": rapid.SampledFrom([]any{nil, "i"}), "timestamp": drawnTimes, "absolute_cooldown": optionally(drawnTimedelta),
		"scheduled_cooldown": optionally(drawnTimedelta), "failed_cooldown": optionally(drawnTimedelta), "not_found_cooldown": optionally(drawnTimedelta),
		"tablesample": rapid.SampledFrom([]any{nil, 100}), "dry_run": drawnBools},
	"visit_stats/upsert":       {"origin_visit_stats": listOf(drawnStats, 4)},
	"visit_stats/get":          {"ids": listOf(rapid.Custom(func(t *rapid.T) any { return []any{drawnURLs.Draw(t, "url"), drawnVisits.Draw(t, "type")} }), 3)},
	"visit_scheduler/get":      {},
	"visit_scheduler/set":      {"visit_type": drawnVisits, "position": rapid.SampledFrom([]any{0, 1 << 40, -1})},
	"scheduler_metrics/update": {"lister_id": optionally(drawnListers), "timestamp": drawnTimes},
	"scheduler_metrics/get":    {"lister_id": optionally(drawnListers), "visit_type": optionally(drawnVisits)},
}

// twins are the two servers, on databases that hold the same.
type twins struct {
	urls  [2]string // the Python scheduler's, ours
	conns [2]*pgx.Conn
}

func newTwins(t *testing.T) twins {
	t.Helper()
	peerDSN, dsn := testenv.PythonDatabase(t), testenv.Database(t)
	tw := twins{urls: [2]string{startPeer(t, peerDSN), serve(t, dsn)}}
	for i, dsn := range []string{peerDSN, dsn} {
		conn := testenv.Connect(t, dsn)
		tw.conns[i] = conn
	}
	return tw
}

// reset writes the same few rows to both databases.
func (tw twins) reset(t testingT) {
	for _, conn := range tw.conns {
		testenv.Exec(t, conn, `truncate task_type, task, task_run, listers, listed_origins, scheduler_metrics,
			origin_visit_stats, visit_scheduler_queue_position restart identity;
		insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor, num_retries)
		values ('load-git', 'd', 'b', '1 day', '1 hour', '64 days', 2, 1), ('load-hg', 'd', 'b', '2 days', null, null, 1, null);
		insert into listers (id, name, instance_name, created, updated, current_state, last_listing_finished_at, first_visits_queue_prefix)
		values ('00000000-0000-4000-8000-000000000001', 'gitlab', 'i', '2024-01-01', '2024-01-01', '{"k": 1}', '2024-03-01 12:00Z', 'p'),
		       ('00000000-0000-4000-8000-000000000002', 'gitea', '', '2024-01-02', '2024-01-02', '{}', null, null)`)
	}
}

// tables are what a call may change, but for when rows were written.
var tables = []string{
	"select * from task_type order by type",
	"select * from task order by id",
	"select id, task, backend_id, case when scheduled < '2025-01-01' then scheduled end, case when started < '2025-01-01' then started end, ended, metadata, status from task_run order by id",
	"select case when id::text like '00000000%' then id end, name, instance_name, current_state, last_listing_finished_at, first_visits_queue_prefix, first_visits_scheduled_at from listers order by name, instance_name",
	"select lister_id, url, visit_type, extra_loader_arguments, enabled, last_update, is_fork, forked_from_url, case when last_seen < '2025-01-01' then last_seen end from listed_origins order by 1, 2, 3",
	"select * from origin_visit_stats order by url, visit_type",
	"select * from visit_scheduler_queue_position order by visit_type",
	"select * from scheduler_metrics order by lister_id, visit_type",
}

func (tw twins) compareRows(t testingT) {
	for _, query := range tables {
		var rows [2][]string
		for i, conn := range tw.conns {
			rows[i] = testenv.Column[string](t, conn, "select r::text from ("+query+") r")
		}
		if !slices.Equal(rows[0], rows[1]) { // cmp.Diff is slow with many equal ones
			t.Fatalf("%s (-peer +ours):\n%s", query, cmp.Diff(rows[0], rows[1]))
		}
	}
}

// plain is an answer, read from JSON, as a text in which what time it is now does
// not matter.
func plain(value any) string {
	switch v := value.(type) {
	case []any:
		elements := make([]string, len(v))
		for i, element := range v {
			elements[i] = plain(element)
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case map[string]any:
		var entries []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			entries = append(entries, key+": "+plain(v[key]))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	case string:
		if id, err := uuid.Parse(v); err == nil && len(v) == 36 && !slices.Contains(listerIDs, id) {
			return "new" // of a lister that the call made
		}
		if v > "2025" && v < "21" { // a date of today's
			return "now"
		}
	}
	return fmt.Sprintf("%#v", value)
}

// untyped reads msgpack into the types that plain takes; what JSON lacks becomes
// a text. Tags stay the dicts that they are.
func untyped(text []byte) (any, error) {
	decoder := msgpack.NewDecoder(bytes.NewReader(text))
	decoder.SetMapDecoder(func(d *msgpack.Decoder) (any, error) {
		n, err := d.DecodeMapLen()
		dict := make(map[string]any, max(n, 0))
		for range n {
			key, keyErr := d.DecodeInterfaceLoose() // of a tag, bytes
			element, valueErr := d.DecodeInterfaceLoose()
			if err := errors.Join(keyErr, valueErr); err != nil {
				return nil, err
			}
			dict[fmt.Sprintf("%s", key)] = element
		}
		return dict, err
	})
	value, err := decoder.DecodeInterfaceLoose()
	return simplified(value), err
}

func simplified(value any) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = simplified(element)
		}
		return list
	case map[string]any:
		for key, element := range v {
			v[key] = simplified(element)
		}
	case []byte:
		return "bytes " + string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return value
}

// answer is what a server answers to a call.
type answer struct {
	status    int
	exception string // its class
	message   string
	value     string
}

// form is in which formats a client asks and is answered.
type form struct{ request, accept string }

var drawnForms = rapid.Custom(func(t *rapid.T) form {
	formats := rapid.SampledFrom([]string{mimeMsgpack, mimeJSON})
	return form{formats.Draw(t, "format of the request"), formats.Draw(t, "accepted format")}
})

// testingT is what *testing.T and *rapid.T have in common here.
type testingT interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// call makes a call. It returns the response, with parts of undefined order sorted by arrange, and the value in
// it.
func (tw twins) call(t testingT, side int, path string, arguments any, f form, arrange func(any)) (answer, any) {
	e := newEncoder(f.request, nil)
	writeValue(e, arguments)
	body, err := e.finish()
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tw.urls[side]+"/"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", f.request)
	request.Header.Set("Accept", f.accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: response.StatusCode}
	if a.status == http.StatusOK {
		if got := response.Header.Get("Content-Type"); got != f.accept {
			t.Fatalf("%s: accepts %s, got %s", path, f.accept, got)
		}
		var value any
		if f.accept == mimeJSON {
			err = json.Unmarshal(text, &value)
		} else {
			value, err = untyped(text)
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		arrange(value)
		a.value = plain(value)
		return a, value
	}
	if response.Header.Get("Content-Type") != mimeMsgpack {
		return a, nil // the Python scheduler fails to say how it failed
	}
	value, err := readMsgpack(text, defaultLimits)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	class, _ := value.(dict).get("type")
	message, _ := value.(dict).get("message")
	a.exception, a.message = fmt.Sprint(class), fmt.Sprint(message)
	return a, nil
}

// both makes a call on both servers.
func (tw twins) both(t testingT, path string, arguments any, f form) (want, got answer) {
	arrange := arrangements[path]
	if arrange == nil {
		arrange = asAnswered
	}
	want, _ = tw.call(t, 0, path, arguments, f, arrange)
	got, _ = tw.call(t, 1, path, arguments, f, arrange)
	return want, got
}

// Both servers have the same effects and responses for calls as clients make them.
func TestCallsAreThePeers(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	paths := slices.Sorted(maps.Keys(drawnCalls))
	seed.Check(t, func(t *rapid.T) {
		tw.reset(t)
		for range rapid.IntRange(1, 10).Draw(t, "calls") {
			path := rapid.SampledFrom(paths).Draw(t, "path")
			arguments := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(drawnCalls[path])) {
				arguments[name] = drawnCalls[path][name].Draw(t, name)
			}
			f := drawnForms.Draw(t, "form")
			want, got := tw.both(t, path, arguments, f)
			if want.exception != "UnknownPolicy" && want.exception != "StaleData" {
				want.message, got.message = "", ""
			}
			if want != got {
				t.Fatalf("%s(%v):\nthe peer %+v\nours     %+v", path, arguments, want, got)
			}
			tw.compareRows(t)
		}
	})
}

// Calls that no client would make are refused, or have effects, as in the Python scheduler.
func TestOddCallsAreThePeers(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	paths := slices.Sorted(maps.Keys(drawnCalls))
	seed.Check(t, func(t *rapid.T) {
		tw.reset(t)
		path := rapid.SampledFrom(paths).Draw(t, "path")
		arguments := map[string]any{}
		names := slices.Sorted(maps.Keys(drawnCalls[path]))
		for _, name := range names {
			arguments[name] = drawnCalls[path][name].Draw(t, name)
		}
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 || len(names) == 0:
			arguments["nobody_knows"] = 1
		case kind == 1:
			delete(arguments, rapid.SampledFrom(names).Draw(t, "missing"))
		default:
			arguments[rapid.SampledFrom(names).Draw(t, "odd")] = drawnOddities.Draw(t, "oddity")
		}
		f := form{mimeMsgpack, mimeJSON}
		want, got := tw.both(t, path, arguments, f)
		// The Python scheduler may let an odd value pass that no row shows to be one, or write
		// what PostgreSQL makes of its text. We may refuse it, if we say which
		// argument it is, or answer nothing.
		empty := []string{"<nil>", "[]", "{}", "{tasks: []}", `{d: {next_page_token: <nil>, results: [], total_results: <nil>}, swhtype: "paged_result"}`}
		named := got.exception == "TypeError" && strings.HasPrefix(got.message, "argument '")
		if want.status == http.StatusOK && got.status == http.StatusInternalServerError && (named || slices.Contains(empty, want.value)) {
			return
		}
		// Of two mistakes in one call either may be told first.
		if want.exception == "UnknownPolicy" && named {
			return
		}
		// The Python scheduler's PostgreSQL reads every text before it looks for rows; ours, one
		// for which there may be a row.
		if want.exception == "InvalidTextRepresentation" && slices.Contains(empty, got.value) {
			return
		}
		signature := want.exception == "TypeError" && strings.HasPrefix(want.message, "SchedulerBackend.")
		if want.status != got.status || want.value != got.value || signature && want != got {
			t.Fatalf("%s(%v):\nthe peer %+v\nours     %+v", path, arguments, want, got)
		}
		tw.compareRows(t)
	})
}

// Batches of 10,000, as of listers and importers, agree in both formats.
func TestLargeCallsAreThePeers(t *testing.T) {
	t.Parallel()
	const size = 10_000
	tw := newTwins(t)
	tw.reset(t)
	batch := func(of func(i int) any) []any {
		list := make([]any, size)
		for i := range list {
			list[i] = of(i)
		}
		return list
	}
	at := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	url := func(i int) string { return fmt.Sprintf("https://example.org/é/%d", i*7919%size) }
	for i, call := range []struct {
		path      string
		arguments map[string]any
	}{
		{"origins/record", map[string]any{"listed_origins": batch(func(i int) any {
			return object("ListedOrigin", map[string]any{"lister_id": listerIDs[i%2], "url": url(i), "visit_type": "git", "extra_loader_arguments": map[string]any{"i": i}, "last_update": at, "last_seen": at})
		})}},
		{"origins/get", map[string]any{"lister_id": listerIDs[0], "limit": size / 4}},
		{"visit_stats/upsert", map[string]any{"origin_visit_stats": batch(func(i int) any {
			return object("OriginVisitStats", map[string]any{"url": url(i), "visit_type": "git", "last_visit": at, "last_visit_status": "failed", "last_snapshot": make([]byte, 20)})
		})}},
		{"visit_stats/get", map[string]any{"ids": batch(func(i int) any { return []any{url(i), "git"} })}},
		{"task/create", map[string]any{"tasks": batch(func(i int) any {
			return object("Task", map[string]any{"type": "load-git", "next_run": at.Add(time.Duration(i) * time.Second), "policy": "oneshot", "arguments": object("TaskArguments", map[string]any{"args": []any{}, "kwargs": map[string]any{"url": url(i)}})})
		})}},
		{"task/grab_ready", map[string]any{"task_type": "load-git", "timestamp": at.Add(48 * time.Hour), "num_tasks": size / 4}},
		{"task_run/schedule", map[string]any{"task_runs": batch(func(i int) any {
			return object("TaskRun", map[string]any{"task": 1 + i, "backend_id": fmt.Sprint("run ", i), "scheduled": at, "metadata": map[string]any{}})
		})}},
		{"task/get", map[string]any{"task_ids": batch(func(i int) any { return 1 + i })}},
		{"task/disable", map[string]any{"task_ids": batch(func(i int) any { return 1 + i })}},
	} {
		f := []form{{mimeMsgpack, mimeMsgpack}, {mimeJSON, mimeJSON}}[i%2]
		want, got := tw.both(t, call.path, call.arguments, f)
		if want.status != http.StatusOK || want != got {
			t.Fatalf("%s:\nthe peer %.1000v\nours     %.1000v", call.path, want, got)
		}
		tw.compareRows(t)
	}
}
