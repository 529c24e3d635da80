package simulator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// Calls run in the order of their times, and of their scheduling for equal times. Calls at the end or later don't
// run.
func TestClockOrder(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		type thing struct {
			at    time.Duration
			place int
		}
		waits := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "waits")
		until := time.Duration(rapid.IntRange(0, 20).Draw(t, "until"))
		clock := NewClock(time.Unix(0, 0))
		var want, got []thing
		for i, wait := range waits {
			at := time.Duration(wait)
			if at < until {
				want = append(want, thing{at, i})
			}
			clock.After(at, func(context.Context) error {
				got = append(got, thing{clock.Elapsed(), i})
				return nil
			})
		}
		slices.SortStableFunc(want, func(a, b thing) int { return int(a.at - b.at) })
		if err := clock.Run(context.Background(), until); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v happened until %d, want %v (%v)", got, until, want, err)
		}
		if clock.Elapsed() != until {
			t.Errorf("the clock shows %d, want %d", clock.Elapsed(), until)
		}
	})
}

// The first call of Every is at once. An error ends the run and is returned. The end of its context ends the run
// without an error.
func TestClockEnds(t *testing.T) {
	t.Parallel()
	trouble := errors.New("trouble")
	for name, tc := range map[string]struct {
		third func(cancel context.CancelFunc) error
		want  error
	}{
		"error":   {func(context.CancelFunc) error { return trouble }, trouble},
		"context": {func(cancel context.CancelFunc) error { cancel(); return nil }, nil},
		"both":    {func(cancel context.CancelFunc) error { cancel(); return trouble }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			clock, times := NewClock(time.Unix(0, 0)), 0
			clock.Every(time.Hour, func(context.Context) error {
				if times++; times == 3 {
					return tc.third(cancel)
				}
				return nil
			})
			if err := clock.Run(ctx, 24*time.Hour); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if times != 3 || clock.Elapsed() != 2*time.Hour {
				t.Errorf("%d times until %s, want 3 until 2h", times, clock.Elapsed())
			}
		})
	}
}
