package celery_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/parsed"
)

// MaxBytes bounds the memory of unacknowledged messages, however many the broker sends. Acknowledging makes room for the
// next ones, and each message arrives once, in order.
func TestUnacknowledgedBytesAreBounded(t *testing.T) {
	env, ch := withQueue(t) // not in parallel: it measures the memory of the process
	const messages, size, limit = 300, 1 << 20, 8 << 20
	body := bytes.Repeat([]byte("x"), size)
	for i := range messages {
		binary.BigEndian.PutUint64(body, uint64(i))
		put(t, ch, "queue", body)
	}
	before := heap()
	deliveries := make(chan celery.Delivery)
	c := runConsumer(t, parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", MaxBytes: limit}, deliveries)
	last := next(t, deliveries)
	most := uint64(0)
	for still, seen := time.Now(), uint64(0); time.Since(still) < time.Second; time.Sleep(20 * time.Millisecond) {
		if now := heap(); now > seen+size {
			seen, still = now, time.Now()
		}
		most = max(most, seen)
	}
	if grown := int64(most) - int64(before); grown > 4*limit {
		t.Errorf("the heap grew by %d MiB while nothing was acknowledged, want about %d", grown>>20, limit>>20)
	} else {
		t.Logf("the heap grew by %d MiB", grown>>20)
	}
	for i := uint64(0); ; i++ {
		if got := binary.BigEndian.Uint64(last.Body); got != i || last.Redelivered {
			t.Fatalf("message %d, redelivered %v, in the place of %d", got, last.Redelivered, i)
		}
		if i%5 == 4 || i == messages-1 {
			if err := c.AckUpTo(last); err != nil {
				t.Fatal(err)
			}
		}
		if i == messages-1 {
			return
		}
		last = next(t, deliveries)
	}
}

// heap returns the bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A consumer at MaxBytes closes in order, in less than two seconds. A forced close takes two seconds.
func TestCloseAtMaxBytes(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	for range 5 {
		put(t, ch, "queue", make([]byte, 1<<20))
	}
	var tries []time.Duration // A forced close is never quicker. On a busy machine, an orderly close is quicker in some tries.
	for range 5 {
		deliveries := make(chan celery.Delivery)
		c := runConsumer(t, parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", MaxBytes: 2 << 20}, deliveries)
		next(t, deliveries)
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if tries = append(tries, time.Since(began)); tries[len(tries)-1] < 2*time.Second {
			return
		}
	}
	t.Errorf("closing took %s", tries)
}
