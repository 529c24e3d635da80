package service

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

func TestBackoffDoublesItsBound(t *testing.T) {
	for _, tc := range []struct {
		name string
		rand float64
		want []time.Duration
	}{
		{"at the bottom of the range", 0, []time.Duration{time.Second, time.Second, time.Second, time.Second}},
		{"at the top of the range", 1, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}},
		{"in the middle", 0.5, []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond, 4500 * time.Millisecond, 5500 * time.Millisecond}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := Backoff{Min: time.Second, Max: 10 * time.Second, Rand: func() float64 { return tc.rand }}
			for range 2 { // the second time after a Reset: the same
				for i, want := range tc.want {
					if got := b.Next(); got != want {
						t.Errorf("wait %d: got %s, want %s", i, got, want)
					}
				}
				b.Reset()
			}
		})
	}
}

// After a long outage the next try comes within ten seconds: docs/explanation/guarantees.md promises
// that work goes on within 45 s, and several loops may wait one after another.
func TestBackoffAfterALongOutage(t *testing.T) {
	b := Backoff{Rand: func() float64 { return 0.999999 }}
	for range 20 {
		if d := b.Next(); d > 10*time.Second {
			t.Fatalf("a wait of %s", d)
		}
	}
}

// Whatever its limits and however often it is asked, a wait lies within them.
func TestBackoffStaysWithinItsLimits(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		b := Backoff{
			Min: time.Duration(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "min")),
			Max: time.Duration(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "max")),
		}
		shortest, longest := b.limits()
		for range rapid.IntRange(1, 100).Draw(t, "tries") {
			if d := b.Next(); d < shortest || d > longest {
				t.Fatalf("wait %s is not between %s and %s", d, shortest, longest)
			}
		}
	})
}

func TestBackoffWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := Backoff{Min: time.Minute, Max: time.Minute}
		start := time.Now()
		if err := b.Wait(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("returned after %s, want 1s", d)
		}
		if err := b.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Minute+time.Second {
			t.Errorf("returned after %s, want 1m1s", d)
		}
	})
}
