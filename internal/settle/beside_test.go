package settle_test

import (
	"testing"

	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// While a batch waits for a run's lock, another listener ends the run, or moves it to the next lane under another id. Then
// the batch leaves the run alone: a second end would use a second retry.
func TestRunsThatAnotherListenerChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"it ends":  "update task_run set status = 'failed', ended = now() where backend_id = 'run'",
		"it moves": "update task_run set backend_id = 'next' where backend_id = 'run'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := outcomesStore(t)
			task := addTask(t, store, "good", "run")
			other, err := store.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			testenv.Exec(t, other, change)
			applied := make(chan error)
			go func() { applied <- store.ApplyOutcomes(t.Context(), []settle.Outcome{ended("run", "failed", 1)}) }()
			testenv.Becomes(t, "the batch waits for the other listener", true, func() bool {
				return testenv.Value[bool](t, store.Pool(), "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
			})
			const state = "select status || ', retries left: ' || retries_left from task where id = $1"
			want := testenv.Value[string](t, other, state, task)
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-applied; err != nil {
				t.Error(err)
			}
			if got := testenv.Value[string](t, store.Pool(), state, task); got != want {
				t.Errorf("the task is %s, want %s", got, want)
			}
			if n := testenv.Value[int](t, store.Pool(), "select count(*) from task_run where status = 'scheduled' and ended is null"); (n == 1) != (name == "it moves") {
				t.Errorf("%d runs are open", n)
			}
		})
	}
}
