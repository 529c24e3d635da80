package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	l.Log = cmp.Or(l.Log, slog.New(slog.DiscardHandler))
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

// A loop whose rounds fail says so once, in the words of its work, and once that it works
// again. That a round was canceled says nothing of its work.
func TestLoopLogsWhenItsRoundsFail(t *testing.T) {
	denied := errors.New("permission denied for table task")
	fails := func(errs ...error) []error { return errs }
	for _, tc := range []struct {
		name   string
		rounds []error
		want   string
	}{
		{"all is well", fails(nil, nil), ""},
		{"some fail", fails(nil, denied, errors.New("another"), denied, nil, nil, denied), `level=WARN msg="maintenance failed; will be tried again" error="permission denied for table task"
level=DEBUG msg="maintenance failed again" error=another
level=DEBUG msg="maintenance failed again" error="permission denied for table task"
level=INFO msg="maintenance works again" after=3s
level=WARN msg="maintenance failed; will be tried again" error="permission denied for table task"
`},
		{"canceled", fails(context.Canceled, fmt.Errorf("ask: %w", context.Canceled)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var buf bytes.Buffer
				l := &Loop{Name: "maintenance", Log: logTo(&buf), Period: time.Second, Backoff: Backoff{Min: time.Second, Max: time.Second}}
				rounds(t, l, len(tc.rounds), func(i int) (Result, error) { return Result{}, tc.rounds[i] })
				if got := buf.String(); got != tc.want {
					t.Errorf("got\n%swant\n%s", got, tc.want)
				}
			})
		})
	}
}

// While listening fails, it is tried with growing pauses, and after news with the
// shortest again. News that nobody has taken yet holds up nothing.
func TestLoopListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		const failures = 10
		var tries, began []time.Time
		l := Loop{
			Name: "claiming tasks", Log: slog.New(slog.DiscardHandler), Period: time.Hour,
			RunOnce: func(context.Context) (Result, error) {
				began = append(began, time.Now())
				return Result{}, nil
			},
			Listen: func(_ context.Context, wake func()) error {
				switch tries = append(tries, time.Now()); len(tries) {
				case failures:
					wake()
					wake()
				case failures + 1:
					stop()
				}
				return errors.New("away")
			},
		}
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Time{tries[0], tries[failures-1]}; !slices.Equal(slices.Compact(began), want) {
			t.Errorf("rounds began at %v, want %v", began, want)
		}
		if whole := tries[failures-1].Sub(tries[0]); whole < (failures-1)*DefaultMinWait {
			t.Errorf("%d tries in %s", failures, whole)
		}
		if pause := tries[failures].Sub(tries[failures-1]); pause > 2*DefaultMinWait {
			t.Errorf("a pause of %s after news", pause)
		}
	})
}

// The first call comes at once, the second within a period, at different times in each
// process, and the others a period apart.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := map[time.Duration]bool{}
		for range 20 {
			ctx, stop := context.WithCancel(t.Context())
			start, calls := time.Now(), []time.Duration(nil)
			err := Every(ctx, time.Hour, slog.New(slog.DiscardHandler), "reading figures", func(context.Context) error {
				if calls = append(calls, time.Since(start)); len(calls) == 4 {
					stop()
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			second := calls[1]
			if want := []time.Duration{0, second, second + time.Hour, second + 2*time.Hour}; second > time.Hour || !slices.Equal(calls, want) {
				t.Errorf("calls after %v, want %v", calls, want)
			}
			seconds[second] = true
		}
		if len(seconds) < 10 {
			t.Errorf("20 second calls came at only %d different times", len(seconds))
		}
	})
}

// A stop waits for the end of a round, but cuts a call of Every short, which is no failure.
func TestStopsDuringARound(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context, log *slog.Logger, round func(ctx context.Context) error) error
		want time.Duration
	}{
		{"a loop", func(ctx context.Context, log *slog.Logger, round func(ctx context.Context) error) error {
			return (&Loop{Name: "work", Log: log, Period: time.Hour, RunOnce: func(ctx context.Context) (Result, error) {
				return Result{}, round(ctx)
			}}).Run(ctx)
		}, 20 * time.Second},
		{"a call of Every", func(ctx context.Context, log *slog.Logger, round func(ctx context.Context) error) error {
			return Every(ctx, time.Hour, log, "work", round)
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				log := slog.New(slog.NewTextHandler(&logged, nil))
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				err := Group{Log: log}.Run(ctx, Component{Name: "component", Run: func(component context.Context) error {
					return tc.run(component, log, func(ctx context.Context) error {
						stop()
						return Sleep(ctx, 20*time.Second)
					})
				}})
				if took := time.Since(began); err != nil || took != tc.want || logged.Len() > 0 {
					t.Errorf("the stop took %s, want %s; error %v, log %q", took, tc.want, err, logged.String())
				}
			})
		})
	}
}
