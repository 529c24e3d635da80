package simulator

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// recorder records messages, which are their own runtimes.
type recorder struct {
	clock      *Clock
	busy, most int
	begun      []time.Duration // in order
	idle       time.Duration   // the time after which no more begin
}

func (r *recorder) begin(m time.Duration) time.Duration {
	r.busy++
	r.most = max(r.most, r.busy)
	r.begun = append(r.begun, m)
	return m
}

func (r *recorder) end(time.Duration) {
	r.busy--
	r.idle = r.clock.Elapsed()
}

// Workers take messages in order, one at a time, and none is idle while a message waits. The last end equals that of
// giving each message in turn to the least busy worker.
func TestWorkers(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 4).Draw(t, "workers")
		waits := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(t, "messages")
		clock := NewClock(time.Unix(0, 0))
		r := &recorder{clock: clock}
		q := queue[time.Duration]{clock: clock, idle: workers, begin: r.begin, end: r.end}
		ends := make([]time.Duration, workers)
		var last time.Duration
		for _, wait := range waits {
			q.put(time.Duration(wait))
			first := 0
			for i, end := range ends {
				if end < ends[first] {
					first = i
				}
			}
			ends[first] += time.Duration(wait)
			last = max(last, ends[first])
		}
		if got, want := len(q.waiting), max(0, len(waits)-workers); got != want {
			t.Errorf("%d messages wait, want %d", got, want)
		}
		if err := clock.Run(context.Background(), time.Hour); err != nil {
			t.Fatal(err)
		}
		for i, m := range r.begun {
			if m != time.Duration(waits[i]) {
				t.Fatalf("message %d was begun as number %d", waits[i], i)
			}
		}
		if len(r.begun) != len(waits) || r.busy != 0 || r.most > workers || r.idle != last {
			t.Errorf("%d of %d messages were begun, %d not ended, %d at a time by %d workers, until %d, want %d",
				len(r.begun), len(waits), r.busy, r.most, workers, r.idle, last)
		}
	})
}
