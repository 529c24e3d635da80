package rpc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// arrangements bring the answers to a call into one order where the SQL of the
// Python scheduler leaves it open: all of it (no ORDER BY), or that of rows which
// are equal by the ORDER BY. The answers to calls that aren't here are compared as
// they come: origins/record and visit_stats/get follow the order of the call.
var arrangements = map[string]func(any){
	"task/peek_ready":               orderedBy("next_run"),
	"task/peek_ready_with_priority": orderedBy("next_run"),
	"task/filter_for_archive":       orderedBy("task_id", "started"),
	"origins/get":                   orderedBy("lister_id", "url"),

	// By columns that are not in the answer: TestOrderAndLimitsAreThePeers.
	"origins/grab_next": unordered,

	"task_type/get_all":             unordered,
	"task/create":                   unordered,
	"task/search":                   unordered,
	"task/get":                      unordered,
	"task/grab_ready":               unordered, // UPDATE ... RETURNING
	"task/grab_ready_with_priority": unordered,
	"task_run/get":                  unordered,
	"listers/get":                   unordered,
	"listers/get_by_id":             unordered,
	"lister/visit_types":            unordered,
	"scheduler_metrics/update":      unordered,
	"scheduler_metrics/get":         unordered,
}

func asAnswered(any) {}

func unordered(value any) { sortPlain(elements(value)) }

// orderedBy keeps the order of rows that differ in these fields.
func orderedBy(fields ...string) func(any) {
	key := func(row any) string {
		var key []string
		for _, field := range fields {
			key = append(key, plain(untagged(row).(map[string]any)[field]))
		}
		return strings.Join(key, " ")
	}
	return func(value any) {
		rows := elements(value)
		for len(rows) > 0 {
			n, first := 1, key(rows[0])
			for n < len(rows) && key(rows[n]) == first {
				n++
			}
			sortPlain(rows[:n])
			rows = rows[n:]
		}
	}
}

func sortPlain(rows []any) {
	type keyed struct {
		plain string
		row   any
	}
	sorted := make([]keyed, len(rows))
	for i, row := range rows {
		sorted[i] = keyed{plain(row), row} // once, as it takes long
	}
	slices.SortFunc(sorted, func(a, b keyed) int { return strings.Compare(a.plain, b.plain) })
	for i := range rows {
		rows[i] = sorted[i].row
	}
}

// untagged is what a tag holds.
func untagged(value any) any {
	if tag, ok := value.(map[string]any); ok && tag["swhtype"] != nil {
		return tag["d"]
	}
	return value
}

// elements are the rows of an answer.
func elements(value any) []any {
	switch v := untagged(value).(type) {
	case []any:
		return v
	case map[string]any:
		for _, key := range []string{"results", "tasks"} { // of a page
			if rows, ok := v[key].([]any); ok {
				return rows
			}
		}
	}
	return nil
}

// fill writes 12 rows of a kind that differ in all columns by which calls order, in another order than their ids
// (k is from 2 to 11).
func (tw twins) fill(t testingT, k int) {
	for _, conn := range tw.conns {
		for _, statement := range []string{
			`insert into task (id, type, arguments, next_run, current_interval, status, policy, priority)
			select n, 'load-git', jsonb_build_object('args', jsonb_build_array(n), 'kwargs', '{}'::jsonb), '2024-03-01 12:00Z'::timestamptz + n * %[1]d %% 13 * interval '1 minute', '1 day',
			       case when n <= 12 then 'next_run_not_scheduled' else 'disabled' end::task_status, 'recurring',
			       (array[null, 'high', null, 'low'])[1 + n %% 4]::task_priority
			from generate_series(1, 16) n`,
			`insert into task_run (task, backend_id, scheduled, started, metadata, status)
			select 13 + n %% 4, 'run-' || n, '2024-03-01 12:00Z', case when n > 4 then '2024-03-01 12:00Z'::timestamptz + n * %[1]d %% 13 * interval '1 minute' end, '{}', 'started'
			from generate_series(1, 12) n`,
			`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
			select ('00000000-0000-4000-8000-00000000000' || 1 + n * %[1]d %% 2)::uuid, 'https://' || n, 'git', '{}', true,
			       '2024-01-01Z'::timestamptz + n * %[1]d %% 13 * interval '1 day', '2024-01-01Z', case when n %% 3 > 0 then '2024-02-01Z'::timestamptz + n * %[1]d %% 13 * interval '1 hour' end
			from generate_series(1, 12) n`,
			// One origin without a row, the others last scheduled at different times.
			`insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_successful, last_snapshot, next_visit_queue_position)
			select 'https://' || n, 'git', '2023-12-01Z'::timestamptz + n * %[1]d %% 13 * interval '1 hour', '2023-12-10Z',
			       (array[null, 'successful', 'failed'])[1 + n / 2 %% 3]::last_visit_status, case when n %% 2 = 0 then '2023-12-10Z'::timestamptz + n * interval '1 minute' end,
			       case when n %% 2 = 0 then '\x0123456789012345678901234567890123456789'::bytea end, n * %[1]d %% 13
			from generate_series(2, 12) n`,
		} {
			testenv.Exec(t, conn, fmt.Sprintf(statement, k))
		}
	}
}

// limited are the calls with a limit, as they are called without their limit. What
// they answer has a certain order, or is the first rows in one.
var limited = map[string]struct {
	path, limit string
	arrange     func(any)
	arguments   generators
}{
	"peek":               {"task/peek_ready", "num_tasks", asAnswered, ofReady},
	"peek with priority": {"task/peek_ready_with_priority", "num_tasks", asAnswered, ofReady},
	"grab":               {"task/grab_ready", "num_tasks", unordered, ofReady},
	"grab with priority": {"task/grab_ready_with_priority", "num_tasks", unordered, ofReady},
	"archive": {"task/filter_for_archive", "limit", orderedBy("task_id", "started"), generators{
		"after_ts": rapid.Just[any]("2024-03-01"), "before_ts": rapid.Just[any]("2024-03-02"), "page_token": rapid.SampledFrom([]any{nil, "14", "15"})}},
	"listed": {"origins/get", "limit", asAnswered, generators{
		"lister_id": optionally(drawnListers), "page_token": rapid.SampledFrom([]any{nil, []any{listerIDs[0].String(), "https://4"}})}},
	"visits": {"origins/grab_next", "count", asAnswered, generators{
		"visit_type": rapid.Just[any]("git"), "timestamp": rapid.Just[any](time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)), "dry_run": drawnBools,
		"absolute_cooldown": rapid.SampledFrom([]any{nil, 12 * time.Hour, time.Hour}), // only the default is answered by candidates
		"lister_uuid":       rapid.Just[any](listerIDs[0].String()),
		"policy": rapid.SampledFrom([]any{"oldest_scheduled_first", "stop_after_success", "never_visited_oldest_update_first",
			"already_visited_order_by_lag", "origins_without_last_update", "first_visits_after_listing"})}},
}

var ofReady = generators{"task_type": rapid.Just[any]("load-git"), "timestamp": rapid.Custom(func(t *rapid.T) any {
	return time.Date(2024, 3, 1, 12, rapid.IntRange(3, 13).Draw(t, "minute"), 0, 0, time.UTC)
})}

// With a limit, both servers return the same first rows, in the same order where it is defined, and change the
// same rows.
func TestOrderAndLimitsAreThePeers(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	names := slices.Sorted(maps.Keys(limited))
	cut := map[string]int{} // how many answers a limit cut short
	compare := func(t testingT, name string, arguments map[string]any, limit int, f form) {
		call, policy := limited[name], arguments["policy"]
		arguments[call.limit] = limit
		want, rows := tw.call(t, 0, call.path, arguments, f, call.arrange)
		got, _ := tw.call(t, 1, call.path, arguments, f, call.arrange)
		if want != got || want.exception != "" {
			t.Fatalf("%s(%v):\nthe peer %+v\nours     %+v", call.path, arguments, want, got)
		}
		tw.compareRows(t)
		if len(elements(rows)) == limit {
			cut[fmt.Sprint(name, policy)]++
		}
	}
	seed.Check(t, func(t *rapid.T) {
		tw.reset(t)
		tw.fill(t, rapid.IntRange(2, 11).Draw(t, "k"))
		for range rapid.IntRange(1, 6).Draw(t, "calls") {
			name := rapid.SampledFrom(names).Draw(t, "call")
			arguments := map[string]any{}
			for _, argument := range slices.Sorted(maps.Keys(limited[name].arguments)) {
				if arguments[argument] = limited[name].arguments[argument].Draw(t, argument); argument == "absolute_cooldown" && arguments[argument] == nil {
					delete(arguments, argument)
				}
			}
			if policy := arguments["policy"]; policy != nil && policy != "first_visits_after_listing" && rapid.Bool().Draw(t, "of all listers") {
				delete(arguments, "lister_uuid")
			}
			compare(t, name, arguments, rapid.IntRange(1, 4).Draw(t, "limit"), drawnForms.Draw(t, "form"))
		}
	})
	for _, name := range names {
		if policies := []any{nil}; !t.Failed() {
			if name == "visits" {
				policies = []any{"oldest_scheduled_first", "stop_after_success", "never_visited_oldest_update_first",
					"already_visited_order_by_lag", "origins_without_last_update", "first_visits_after_listing"}
			}
			for _, policy := range policies {
				// What was not drawn often enough.
				for k := 2; k <= 11 && cut[fmt.Sprint(name, policy)] == 0; k++ {
					tw.reset(t)
					tw.fill(t, k)
					arguments := map[string]any{}
					for argument, generator := range limited[name].arguments {
						if argument != "absolute_cooldown" {
							arguments[argument] = generator.Example(k)
						}
					}
					if policy != nil {
						arguments["policy"] = policy
					}
					compare(t, name, arguments, 1, drawnForms.Example(k))
				}
				if cut[fmt.Sprint(name, policy)] == 0 {
					t.Errorf("%s %v: no answer was as long as its limit", name, policy)
				}
			}
		}
	}
}

// For a search with a limit the Python scheduler returns arbitrary matches. Ours returns as many, all among its
// matches.
func TestSearchesWithALimit(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	tw.reset(t)
	tw.fill(t, 5)
	f := form{mimeMsgpack, mimeJSON}
	for path, arguments := range map[string]map[string]any{
		"task/search":  {"task_type": "load-git", "status": "next_run_not_scheduled"},
		"task_run/get": {"task_ids": []any{13, 14}},
	} {
		_, value := tw.call(t, 0, path, arguments, f, asAnswered)
		found := map[string]bool{}
		for _, row := range elements(value) {
			found[plain(row)] = true
		}
		for _, limit := range []int{1, 3, 5} {
			arguments["limit"] = limit
			_, value := tw.call(t, 1, path, arguments, f, asAnswered)
			if n := len(elements(value)); n != limit || len(found) <= limit {
				t.Errorf("%s: %d rows of %d, want %d", path, n, len(found), limit)
			}
			for _, row := range elements(value) {
				if !found[plain(row)] {
					t.Errorf("%s: %s is not found by the Python scheduler", path, plain(row))
				}
			}
		}
	}
}
