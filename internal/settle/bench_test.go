package settle_test

import (
	"fmt"
	"testing"

	"swh-scheduler/internal/settle"
)

// BenchmarkApplyOutcomes writes a start and an end of each of many runs, in
// batches. One operation is one outcome.
func BenchmarkApplyOutcomes(b *testing.B) {
	for _, size := range []int{10, 200, 2000} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			store := outcomesStore(b)
			mustExec(b, store, `
				with t as (
					insert into task (type, arguments, next_run, current_interval, status)
					select 'good', '{}', now(), '64 days', 'next_run_scheduled' from generate_series(1, $1::int) returning id)
				insert into task_run (task, backend_id, scheduled)
				select id, 'run-' || row_number() over (), now() from t`, b.N)
			mustExec(b, store, `analyze task, task_run`)
			var batch []settle.Outcome
			b.ResetTimer()
			for i := range b.N {
				// A run ends 200 outcomes after its start.
				run := i/400*200 + i%200
				if id := fmt.Sprint("run-", 1+run); i/200%2 == 0 {
					batch = append(batch, started(id, "worker@host", 1))
				} else {
					batch = append(batch, ended(id, "eventful", 2))
				}
				if len(batch) == size {
					apply(b, store, batch...)
					batch = batch[:0]
				}
			}
			apply(b, store, batch...)
		})
	}
}
