package simulator

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
)

// If there are more tasks with priority than workers can do, those of a high priority go first, and those of a low
// priority hardly begin. With ageing they begin. Recurring tasks run beside them, as they have their own queue.
func TestTasksWithPriority(t *testing.T) {
	t.Parallel()
	s := setting{kind: TaskScheduler, origins: 100, hours: 12, workers: 10, after: "update task_type set max_queue_length = 4"}
	for ageing, least := range map[time.Duration]int{0: 0, 10 * time.Minute: 20} {
		start := time.Now()
		options := s.options(t, s.fill(t, start), start)
		options.Ageing, options.Urgent = ageing, 120
		report, err := Run(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Log("\n" + report.UrgentText())
		waits := make(map[model.TaskPriority]UrgentUse)
		begun := 0
		for _, u := range report.Urgent() {
			waits[u.Priority] = u
			begun += u.Tasks
		}
		high, low := waits[model.PriorityHigh], waits[model.PriorityLow]
		if begun < 50 || begun >= report.Visits || high.Tasks <= low.Tasks || low.Tasks < least || least == 0 && low.Tasks*10 > high.Tasks {
			t.Errorf("with ageing after %s: %+v of %d visits", ageing, waits, report.Visits)
		}
	}
}
