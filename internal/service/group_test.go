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

// untilStopped is a component that takes d to finish what is in flight, and
// notes its name in *order when it has.
func untilStopped(name string, d time.Duration, order *[]string) Component {
	return Component{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		if err := Sleep(InFlight(ctx), d); err != nil {
			return err
		}
		*order = append(*order, name)
		return nil
	}}
}

func TestGroupStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			buf   bytes.Buffer
			order []string
		)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		// The slowest is the first: the others wait for it.
		err := Group{Log: logTo(&buf)}.Run(ctx,
			untilStopped("fetch", 5*time.Second, &order),
			untilStopped("apply", 3*time.Second, &order),
			untilStopped("publish", time.Second, &order))
		if err != nil {
			t.Error(err)
		}
		if want := []string{"fetch", "apply", "publish"}; !slices.Equal(order, want) {
			t.Errorf("stopped in the order %v, want %v", order, want)
		}
		if d := time.Since(start); d != time.Minute+9*time.Second {
			t.Errorf("stopped after %s, want 1m9s", d)
		}
		if buf.Len() > 0 {
			t.Errorf("a clean stop logged %s", buf.String())
		}
	})
}

func TestGroupStopsWhenOneEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		err  error
	}{{"with an error", broken}, {"with its work done", nil}, {"cancelled, but not by the group", context.Canceled}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				one := Component{Name: "one", Run: func(ctx context.Context) error {
					return errors.Join(Sleep(ctx, time.Second), tc.err)
				}}
				err := Group{}.Run(t.Context(), untilStopped("other", time.Second, &order), one)
				if !errors.Is(err, tc.err) {
					t.Errorf("got %v, want %v", err, tc.err)
				}
				if err != nil && !strings.HasPrefix(err.Error(), "one: ") {
					t.Errorf("%q does not name the component", err)
				}
				if len(order) != 1 {
					t.Error("the other component was not stopped in peace")
				}
			})
		})
	}
}

// After the grace period what is in flight is cut off and the error says whose.
func TestGroupForcesTheSlow(t *testing.T) {
	for _, tc := range []struct {
		name string
		deaf time.Duration // how long it goes on after even its work's context ended
		want time.Duration
	}{{"one that hears", 0, 10 * time.Second}, {"one that does not", time.Hour, 12 * time.Second}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					buf   bytes.Buffer
					order []string
				)
				slow := Component{Name: "slow", Run: func(ctx context.Context) error {
					<-InFlight(ctx).Done()
					time.Sleep(tc.deaf)
					return ctx.Err()
				}}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				start := time.Now()
				err := Group{Log: logTo(&buf), Grace: 10 * time.Second}.Run(ctx, untilStopped("quick", 0, &order), slow)
				if !errors.Is(err, ErrForced) || !strings.Contains(err.Error(), "slow") || strings.Contains(err.Error(), "quick") {
					t.Errorf("got %v, want a forced stop that names the slow component only", err)
				}
				if d := time.Since(start); d != tc.want {
					t.Errorf("returned after %s, want %s", d, tc.want)
				}
				if strings.Count(buf.String(), "\n") != 1 {
					t.Errorf("want one line in the log, got %q", buf.String())
				}
				time.Sleep(tc.deaf)
			})
		})
	}
}

// A loop in a group finishes the round it is in.
func TestGroupLetsALoopFinishItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := false
		loop := &Loop{Period: time.Hour, RunOnce: func(ctx context.Context) (Result, error) {
			err := Sleep(ctx, 5*time.Second)
			finished = err == nil
			return Result{}, err
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (Group{}).Run(ctx, Component{"loop", loop.Run}); err != nil {
			t.Error(err)
		}
		if !finished {
			t.Error("the round was torn")
		}
	})
}

func TestInFlightOutsideAGroupIsTheContextItself(t *testing.T) {
	if ctx := t.Context(); InFlight(ctx) != ctx {
		t.Error("InFlight gave another context")
	}
}
