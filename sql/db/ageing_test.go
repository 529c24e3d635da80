package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Each minute two tasks with priority high become ready, and two tasks are claimed. One with
// priority low waits for ever in the strict order. With ageing it counts as one priority
// higher for each time that it waits, and goes before those that become ready then.
func TestTasksOfLowPriorityAge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ageing time.Duration
		want   []string // those claimed that are not high, and the minute
		ahead  int      // of the one that is low, of all that are ready after half an hour
	}{
		"strict": {0, []string{}, 63},
		"ageing": {10 * time.Minute, []string{"(normal,11)", "(low,21)"}, 43},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Database(t)
			store := open(t, dsn)
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			execute(t, dsn, `insert into task_type (type, description, backend_name) values ('t', '', 'q');
				insert into task (type, arguments, next_run, status, policy, priority)
				select 't', '{}', '2026-01-01Z'::timestamptz + n / 2 * interval '1 minute', 'next_run_not_scheduled', 'oneshot', 'high' from generate_series(0, 79) n;
				insert into task (type, arguments, next_run, status, policy, priority)
				select 't', '{}', '2026-01-01T00:00:30Z', 'next_run_not_scheduled', 'oneshot', unnest(array['normal', 'low']::task_priority[])`)
			low := testenv.Value[int64](t, store.Pool(), "select id from task where priority = 'low'")
			if n, err := store.TasksAhead(t.Context(), low, begin.Add(30*time.Minute), tc.ageing, 1000); n != tc.ahead || err != nil {
				t.Errorf("%d tasks are said to be claimed before it, want %d: %v", n, tc.ahead, err)
			}
			for minute := range 40 {
				claim := db.TaskClaim{
					Type: model.TaskType{Type: "t", BackendName: "q"}, Queue: "q", WithPriority: true,
					Now: begin.Add(time.Duration(minute) * time.Minute), Max: 2, Ageing: tc.ageing,
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
			got := texts(t, connect(t, dsn), `select priority, (extract(epoch from scheduled - '2026-01-01Z') / 60)::int
				from task t join task_run r on r.task = t.id where priority <> 'high' order by scheduled`)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
