package listener

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// A worker counts from its first sign of life until it says goodbye or has been
// silent for a minute.
func TestWorkersOnline(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after  time.Duration
		event  string
		worker string
		want   int
	}{
		{0, "worker-online", "a", 1},
		{time.Second, "worker-heartbeat", "a", 1},
		{time.Second, "worker-heartbeat", "b", 2},
		{50 * time.Second, "worker-heartbeat", "c", 3},
		{9 * time.Second, "worker-offline", "b", 2},
		{time.Second, "worker-heartbeat", "c", 1}, // a has been silent for more than a minute
		{0, "worker-offline", "never seen", 1},
		{2 * time.Minute, "worker-promoted", "d", 0},
	} {
		now = now.Add(step.after)
		w.hear(step.event, step.worker, now)
		if got := w.online(now); got != step.want {
			t.Errorf("after %s of %s: %d online, want %d", step.event, step.worker, got, step.want)
		}
	}
}

// Made-up names don't fill the memory, nor keep real workers out for long.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for i := range maxWorkers + 10 {
		w.hear("worker-heartbeat", fmt.Sprint(i), now)
	}
	if got := w.online(now); got != maxWorkers {
		t.Errorf("%d workers remembered, want %d", got, maxWorkers)
	}
	now = now.Add(2 * time.Minute)
	w.hear("worker-heartbeat", "real", now)
	if got := w.online(now); got != 1 {
		t.Errorf("%d workers online, want 1", got)
	}
}

// Metrics are gathered while events come.
func TestWorkersAtOnce(t *testing.T) {
	t.Parallel()
	w, now := newWorkers(), time.Now()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 100 {
				w.hear([]string{"worker-online", "worker-offline"}[n%2], fmt.Sprint(i), now)
				w.online(now)
			}
		})
	}
	all.Wait()
	if n := w.online(now); n != 0 {
		t.Errorf("%d are online after they said goodbye", n)
	}
}
