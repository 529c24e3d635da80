package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// While listening fails, it is tried with growing pauses, and after news with the
// shortest again. News that nobody has taken yet holds up nothing.
func TestListen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		const failures = 10
		var tries []time.Time
		Listen(ctx, slog.New(slog.DiscardHandler), func(_ context.Context, wake func()) error {
			switch tries = append(tries, time.Now()); len(tries) {
			case failures:
				wake()
				wake()
			case failures + 1:
				stop()
			}
			return errors.New("away")
		}, wake)
		if len(wake) != 1 {
			t.Errorf("%d wakes", len(wake))
		}
		if whole := tries[failures-1].Sub(tries[0]); whole < (failures-1)*DefaultMinWait {
			t.Errorf("%d tries in %s", failures, whole)
		}
		if pause := tries[failures].Sub(tries[failures-1]); pause > 2*DefaultMinWait {
			t.Errorf("a pause of %s after news", pause)
		}
	})
}

// The first of a kind is logged, then one a minute, which says how many were not.
func TestSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Seldom
		for i, want := range []struct {
			after time.Duration
			kind  string
			held  int
			ok    bool
		}{
			{0, "a", 0, true}, {0, "a", 0, false}, {time.Second, "a", 0, false}, {0, "b", 0, true},
			{seldomPeriod, "a", 2, true}, {0, "b", 0, true}, {seldomPeriod, "a", 0, true},
		} {
			time.Sleep(want.after)
			if held, ok := s.Log(want.kind); held != want.held || ok != want.ok {
				t.Errorf("%d, of kind %s: %d, %t; want %d, %t", i, want.kind, held, ok, want.held, want.ok)
			}
		}
	})
}
