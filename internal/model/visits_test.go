package model_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
)

// Shorter returns shorter cooldowns, by which parked candidates become due early.
func TestShorterCooldowns(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		change func(*model.Cooldowns)
		want   []model.ShorterCooldown
	}{
		"default":             {func(*model.Cooldowns) {}, nil},
		"longer":              {func(c *model.Cooldowns) { c.Absolute, c.NotFound = day, 40*day }, nil},
		"shorter":             {func(c *model.Cooldowns) { c.Absolute = 2 * time.Hour }, []model.ShorterCooldown{{Name: "absolute", By: 10 * time.Hour}}},
		"of visits":           {func(c *model.Cooldowns) { c.Failed, c.NotFound = 31*day, 14*day }, []model.ShorterCooldown{{Name: "visited", By: 17 * day}}},
		"one is off":          {func(c *model.Cooldowns) { c.Failed = 0 }, []model.ShorterCooldown{{Name: "visited", By: 14 * day, Off: true}}},
		"one longer, one off": {func(c *model.Cooldowns) { c.Failed, c.NotFound = 0, 40*day }, []model.ShorterCooldown{{Name: "visited", By: 14 * day, Off: true}}},
		"all are off": {func(c *model.Cooldowns) { *c = model.Cooldowns{} }, []model.ShorterCooldown{
			{Name: "absolute", By: 12 * time.Hour, Off: true}, {Name: "scheduled", By: 7 * day, Off: true}, {Name: "visited", By: 31 * day, Off: true}}},
	} {
		cooldowns := model.DefaultCooldowns
		c.change(&cooldowns)
		if diff := cmp.Diff(c.want, cooldowns.Shorter()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The queue of a task is its own name for a Software Heritage task, else Celery's default. A task with priority
// always has a queue of its own.
func TestQueueFor(t *testing.T) {
	for _, tc := range []struct {
		backend      string
		withPriority bool
		want         string
	}{
		{"swh.loader.git.tasks.UpdateGitRepository", false, "swh.loader.git.tasks.UpdateGitRepository"},
		{"swh.loader.git.tasks.UpdateGitRepository", true, "save_code_now:swh.loader.git.tasks.UpdateGitRepository"},
		{"other.task", false, "celery"},
		{"other.task", true, "save_code_now:other.task"},
		{"swhx", false, "celery"},
	} {
		if got := (model.TaskType{BackendName: tc.backend}).QueueFor(tc.withPriority); got != tc.want {
			t.Errorf("%q, priority %v: got %q, want %q", tc.backend, tc.withPriority, got, tc.want)
		}
	}
}
