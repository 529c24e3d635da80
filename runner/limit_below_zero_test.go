package runner_test

import (
	"testing"

	"swh-scheduler/runner"
)

// A limit below zero admits no message, as with the Python scheduler's get_available_slots. Only null and 0 are no limit.
func TestLimitBelowZeroAdmitsNothing(t *testing.T) {
	t.Parallel()
	for name, withPriority := range map[string]bool{"without priority": false, "with priority": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLimitedWorld(t, 40, -1)
			if n := w.runOurs(t, runner.Options{WithPriority: withPriority}); n != 0 {
				t.Errorf("%d tasks are sent to a queue with the limit -1, want none", n)
			}
		})
	}
}
