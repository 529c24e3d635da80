package settle_test

import (
	"testing"

	"swh-scheduler/internal/settle"
)

// Of two starts of a run at the same time, by workers' clocks, the same one counts in every order, in one batch or
// in two.
func TestStartsAtTheSameTime(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	for name, batches := range map[string][][]string{
		"one batch":             {{"a", "b"}},
		"one batch, turned":     {{"b", "a"}},
		"two batches":           {{"a"}, {"b"}},
		"two batches, turned":   {{"b"}, {"a"}},
		"two batches, repeated": {{"b"}, {"a", "b"}, {"a"}},
	} {
		addTask(t, store, "good", name)
		for _, workers := range batches {
			var starts []settle.Outcome
			for _, w := range workers {
				starts = append(starts, started(name, w, 1))
			}
			apply(t, store, starts...)
		}
		if got := readRun(t, store, name).Metadata["worker"]; got != "b" {
			t.Errorf("%s: started on %v, want b", name, got)
		}
	}
}
