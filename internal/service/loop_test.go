package service

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rounds runs l, on fake time, until the i-th round asks for nothing more, and
// gives the times at which rounds began. step says how round i ends.
func rounds(t *testing.T, l *Loop, n int, step func(i int) (Result, error)) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start, times := time.Now(), []time.Duration(nil)
	l.RunOnce = func(context.Context) (Result, error) {
		times = append(times, time.Since(start))
		if len(times) == n {
			cancel()
		}
		return step(len(times) - 1)
	}
	if err := l.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	return times
}

func TestLoopWaitsAsItsRoundsAsk(t *testing.T) {
	const s = time.Second
	fixed := Backoff{Min: s, Max: 4 * s, Rand: func() float64 { return 1 }}
	away := errors.New("away")
	for _, tc := range []struct {
		name  string
		steps []error
		res   []Result
		want  []time.Duration
	}{
		{"a period after each round", make([]error, 3), make([]Result, 3), []time.Duration{0, 10 * s, 20 * s}},
		{"at once while there is more", make([]error, 4), []Result{{Again: true}, {Again: true}, {}, {}}, []time.Duration{0, 0, 0, 10 * s}},
		{"as long as the round says", make([]error, 3), []Result{{Next: 60 * s}, {Next: s}, {}}, []time.Duration{0, 60 * s, 61 * s}},
		{
			"back-off after errors, afresh after a success",
			[]error{away, away, away, nil, away, nil}, make([]Result, 6),
			[]time.Duration{0, 2 * s, 6 * s, 10 * s, 20 * s, 22 * s},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Loop{Period: 10 * s, Backoff: fixed}
				got := rounds(t, l, len(tc.want), func(i int) (Result, error) { return tc.res[i], tc.steps[i] })
				if !slices.Equal(got, tc.want) {
					t.Errorf("rounds began at %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestLoopSpreadsItsFirstRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 20 {
			l := &Loop{Period: time.Hour, Jitter: true}
			first := rounds(t, l, 1, func(int) (Result, error) { return Result{}, nil })[0]
			if first < 0 || first >= time.Hour {
				t.Errorf("first round after %s, want less than the period", first)
			}
			seen[first] = true
		}
		if len(seen) < 10 {
			t.Errorf("20 first rounds began at only %d different times", len(seen))
		}
	})
}

// News of work starts a round early, but not while rounds fail.
func TestLoopWakesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		news := func() { wake <- struct{}{} }
		l := &Loop{Period: time.Hour, Wake: wake, Backoff: Backoff{Min: time.Minute, Max: time.Minute}}
		got := rounds(t, l, 4, func(i int) (Result, error) {
			switch i {
			case 0:
				time.AfterFunc(time.Second, news)
			case 1:
				news()
				return Result{}, errors.New("away")
			}
			return Result{}, nil
		})
		// The news of round 1, which failed, waits out the back-off and then
		// starts round 3 right after round 2.
		want := []time.Duration{0, time.Second, time.Second + time.Minute, time.Second + time.Minute}
		if !slices.Equal(got, want) {
			t.Errorf("rounds began at %v, want %v", got, want)
		}
	})
}

// The service a loop works on is logged once a state, not once a round.
func TestLoopReportsToItsService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		l := &Loop{Period: time.Second, Service: NewService(logTo(&buf), "Kafka")}
		rounds(t, l, 7, func(i int) (Result, error) {
			if i > 0 && i < 6 {
				return Result{}, errors.New("away")
			}
			return Result{}, nil
		})
		if n := strings.Count(buf.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want 2:\n%s", n, buf.String())
		}
		buf.Reset() // that a round was cancelled says nothing of the service
		rounds(t, l, 2, func(int) (Result, error) { return Result{}, context.Canceled })
		if buf.Len() > 0 {
			t.Errorf("a cancelled round logs %s", buf.String())
		}
	})
}
