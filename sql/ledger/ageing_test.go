package ledger_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Each minute, two tasks with priority high become ready and two tasks are claimed. In the strict order, a
// task with priority low waits for ever. With ageing it counts as one priority higher after each ageing,
// and precedes tasks that become ready then.
func TestTasksOfLowPriorityAge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ageing time.Duration
		want   []string // the claimed tasks that are not high, and the minute
		ahead  int      // the tasks claimed before the low one, of all that are ready after half an hour
	}{
		"strict": {0, []string{}, 63},
		"ageing": {10 * time.Minute, []string{"(normal,11)", "(low,21)"}, 43},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Database(t)
			store := testenv.OpenLocal(t, dsn)
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			testenv.Exec(t, testenv.Connect(t, dsn), `insert into task_type (type, description, backend_name) values ('t', '', 'q');
				insert into task (type, arguments, next_run, status, policy, priority)
				select 't', '{}', '2026-01-01Z'::timestamptz + n / 2 * interval '1 minute', 'next_run_not_scheduled', 'oneshot', 'high' from generate_series(0, 79) n;
				insert into task (type, arguments, next_run, status, policy, priority)
				select 't', '{}', '2026-01-01T00:00:30Z', 'next_run_not_scheduled', 'oneshot', unnest(array['normal', 'low']::task_priority[])`)
			low := testenv.Value[int64](t, store.Pool(), "select id from task where priority = 'low'")
			if n, err := store.TasksAhead(t.Context(), low, begin.Add(30*time.Minute), tc.ageing, 1000); n != tc.ahead || err != nil {
				t.Errorf("%d tasks are said to be claimed before it, want %d: %v", n, tc.ahead, err)
			}
			for minute := range 40 {
				claim := ledger.TaskClaim{
					Type: model.TaskType{Type: "t", BackendName: "q"}, Queue: "q", WithPriority: true,
					Now: begin.Add(time.Duration(minute) * time.Minute), Groups: []ledger.TaskGroup{{Count: 2}}, Ageing: tc.ageing,
				}
				if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					taken, _, err := tx.ClaimTasks(ctx, claim)
					if err == nil && taken[0] != 2 {
						t.Errorf("minute %d: %d were claimed", minute, taken[0])
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			got := testenv.Column[string](t, testenv.Connect(t, dsn), `select r::text from (select priority, (extract(epoch from scheduled - '2026-01-01Z') / 60)::int
				from task t join task_run r on r.task = t.id where priority <> 'high' order by scheduled) r`)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// For any ready tasks, a claim takes those with the first turns, and fills its count. So a task waits at
// most for tasks that became ready before it, or within twice the ageing after it.
func TestTasksGoByTheirTurn(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('t', '', 'q')")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seed.Check(t, func(t *rapid.T) {
		testenv.Exec(t, store.Pool(), "truncate task, task_run, scheduler_go.work")
		ageing := rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute, 3 * time.Hour}).Draw(t, "ageing")
		turns := map[int64]time.Time{} // of the unclaimed tasks
		ready := map[int64]time.Time{}
		for id := range int64(rapid.IntRange(0, 12).Draw(t, "tasks")) {
			rank := rapid.IntRange(0, 2).Draw(t, "rank")
			ready[id] = begin.Add(time.Duration(rapid.IntRange(0, 8*60).Draw(t, "minute")) * time.Minute)
			lower := ageing
			if ageing == 0 {
				lower = 1000 * time.Hour
			}
			turns[id] = ready[id].Add(time.Duration(rank) * lower)
			testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, status, policy, priority)
				values ($1, 't', '{}', $2, 'next_run_not_scheduled', 'oneshot', $3::text::task_priority)`, id, ready[id], []string{"high", "normal", "low"}[rank])
		}
		for now := begin; len(turns) > 0; now = now.Add(time.Hour) {
			most, waiting := rapid.IntRange(1, 5).Draw(t, "slots"), 0
			for id := range turns {
				if !ready[id].After(now) {
					waiting++
				}
			}
			if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, _, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "t", BackendName: "q"}, Queue: "q", WithPriority: true, Now: now, Groups: []ledger.TaskGroup{{Count: most}}, Ageing: ageing})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			claimed := testenv.Column[int64](t, store.Pool(), "select id from task where status = 'next_run_scheduled' and id = any($1)", slices.Collect(maps.Keys(turns)))
			if len(claimed) != min(most, waiting) {
				t.Fatalf("%d of %d were claimed for %d slots", len(claimed), waiting, most)
			}
			var last time.Time
			for _, id := range claimed {
				if turns[id].After(last) {
					last = turns[id]
				}
				delete(turns, id)
			}
			for id, turn := range turns {
				if turn.Before(last) && !ready[id].After(now) {
					t.Fatalf("task %d, whose turn is %s, was passed over by one whose turn is %s", id, turn, last)
				}
			}
		}
	})
}
