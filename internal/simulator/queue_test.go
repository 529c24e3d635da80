package simulator

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// recorder is work whose messages are how long they take.
type recorder struct {
	clock      *Clock
	busy, most int
	begun      []time.Duration // the messages, in order
	idle       time.Duration   // since when no more is begun
}

func (r *recorder) Begin(m time.Duration) time.Duration {
	r.busy++
	r.most = max(r.most, r.busy)
	r.begun = append(r.begun, m)
	return m
}

func (r *recorder) End(context.Context, time.Duration) error {
	r.busy--
	r.idle = r.clock.Elapsed()
	return nil
}

// Workers take messages in order, one each at a time, and none is idle while a
// message waits: the last ends when the least busy worker, given each message in
// turn, would end it.
func TestWorkers(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 4).Draw(t, "workers")
		waits := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(t, "messages")
		clock := NewClock(time.Unix(0, 0))
		queue := NewQueue[time.Duration](len(waits) + 2)
		r := &recorder{clock: clock}
		StartWorkers(clock, queue, workers, r)
		ends := make([]time.Duration, workers)
		var last time.Duration
		for _, wait := range waits {
			queue.Put(time.Duration(wait))
			first := 0
			for i, end := range ends {
				if end < ends[first] {
					first = i
				}
			}
			ends[first] += time.Duration(wait)
			last = max(last, ends[first])
		}
		if got, want := queue.Len(), max(0, len(waits)-workers); got != want || queue.Free() != len(waits)+2-want {
			t.Errorf("%d messages wait with room for %d more, want %d", got, queue.Free(), want)
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
