package service

import (
	"testing"
	"testing/synctest"
	"time"
)

// The first of a kind is logged, then one a minute, which says how many were not.
func TestLogLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s LogLimit
		for i, want := range []struct {
			after time.Duration
			kind  string
			held  int
			ok    bool
		}{
			{0, "a", 0, true}, {0, "a", 0, false}, {time.Second, "a", 0, false}, {0, "b", 0, true},
			{logLimitPeriod, "a", 2, true}, {0, "b", 0, true}, {logLimitPeriod, "a", 0, true},
		} {
			time.Sleep(want.after)
			if held, ok := s.Log(want.kind); held != want.held || ok != want.ok {
				t.Errorf("%d, of kind %s: %d, %t; want %d, %t", i, want.kind, held, ok, want.held, want.ok)
			}
		}
	})
}
