package testenv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that records its failures.
type failing struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *failing) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.said) > 0
}

// Becomes returns once look returns the wanted value. It fails after Patience, or when a function of Run ends.
func TestBecomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(t testing.TB, since func() time.Duration)
		said string
	}{
		"late": {func(t testing.TB, since func() time.Duration) {
			Becomes(t, "it is late", true, func() bool { return since() > Patience-time.Second })
		}, ""},
		"never": {func(t testing.TB, since func() time.Duration) {
			Becomes(t, "seconds", -1, func() int { return int(since().Seconds()) })
		}, "seconds: 300 after 5m0s, want -1"},
		"another text": {func(t testing.TB, _ func() time.Duration) {
			Shows(t, "this", func() string { return "that" })
		}, "shown: that after 5m0s, want this"},
		"a part of the text": {func(t testing.TB, _ func() time.Duration) {
			Shows(t, "this", func() string { return "that and this" })
		}, ""},
		"an end": {func(t testing.TB, _ func() time.Duration) {
			Run(t, func(context.Context) error {
				time.Sleep(time.Minute)
				return errors.New("no more")
			})
			Becomes(t, "it is done", true, func() bool { return false })
		}, "ended with: no more; it is done: false after 1m0s, want true"},
		"an end without an error": {func(t testing.TB, _ func() time.Duration) {
			stop := Run(t, func(context.Context) error { return nil })
			time.Sleep(time.Second)
			stop()
		}, "ended with: <nil>"},
		"a stop": {func(t testing.TB, _ func() time.Duration) {
			Run(t, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})()
		}, ""},
		"a failure before": {func(t testing.TB, since func() time.Duration) {
			t.Errorf("before")
			Becomes(t, "it is late", true, func() bool { return since() > time.Minute })
		}, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, f := time.Now(), &failing{TB: t}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.do(f, func() time.Duration { return time.Since(began) })
				}()
				<-ended
				if got := strings.Join(f.said, "; "); got != c.said {
					t.Errorf("it fails with %q, want %q", got, c.said)
				}
			})
		})
	}
}
