package explain

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
)

// Whether a task that failed is tried again, and why not, follows from its run and its next run: a revoked run
// is not retried, and a recurring task without retries waits for its next regular run.
func TestWhetherItIsTriedAgain(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	ended := noon.Add(-time.Hour)
	run := func(metadata string) *model.TaskRun {
		return &model.TaskRun{Status: model.RunFailed, Ended: &ended, Metadata: []byte(metadata)}
	}
	recurring := func(after time.Duration, left int64) model.Task {
		return model.Task{Status: model.TaskNotScheduled, Policy: model.Recurring, NextRun: ended.Add(after), CurrentInterval: new(7 * day), RetriesLeft: left}
	}
	revoked, rejected, failed := run(`{"not_retried": "revoked"}`), run(`{"not_retried": "rejected"}`), run(`{"error": "no"}`)
	kind := model.TaskType{NumRetries: new(int64(3)), RetryDelay: new(2 * day)}
	disabled := model.Task{Status: model.TaskDisabled, Policy: model.Oneshot}
	for name, c := range map[string]struct {
		task      model.Task
		run       *model.TaskRun
		want, not []string
	}{
		"a revoked one-shot task":        {disabled, revoked, []string{"revoked", "isn't retried"}, []string{"no retries left"}},
		"a rejected one-shot task":       {disabled, rejected, []string{"rejected", "isn't retried"}, []string{"no retries left"}},
		"a failed one-shot task":         {disabled, failed, []string{"no retries left"}, []string{"revoked", "isn't retried"}},
		"a revoked recurring task":       {recurring(7*day, 3), revoked, []string{"revoked", "isn't retried", "Its interval is 7 days"}, []string{"tried again"}},
		"a recurring task that is tried": {recurring(2*day, 2), failed, []string{"tried again after a delay; 2 more retries are left"}, []string{"isn't retried"}},
		"a recurring task out of retries": {recurring(7*day, 3), failed, []string{"no retries left", "next regular run", "Its interval is 7 days"},
			[]string{"tried again after a delay"}},
		"a recurring task that was moved": {recurring(3*day, 2), failed, []string{"was moved"}, []string{"tried again after a delay", "no retries left"}},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, Task{Task: c.task, Type: kind, LastRun: c.run}.Explain(noon), c.want, c.not)
		})
	}
}

// Dates that are further away than a Go duration reaches are not given a wrong distance.
func TestFarDates(t *testing.T) {
	t.Parallel()
	task := Task{Task: model.Task{Status: model.TaskNotScheduled, NextRun: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}}
	says(t, task.Explain(noon), []string{"9999-12-31", "in 2910980 days"}, []string{"106751"})
	task.Task.NextRun = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	says(t, task.Explain(noon), []string{"0001-01-01", "741077 days ago"}, []string{"106751"})
}
