package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// background reads something slow, such as the state of all queues at the broker. It reads only while pages need it, in
// one goroutine at a time. Pages show the last value and its time.
type background[T any] struct {
	name  string        // name on pages
	every time.Duration // between two readings
	wait  time.Duration // how long get waits for the first value
	read  func(ctx context.Context) (T, error)
	log   *slog.Logger // for panics

	mu      sync.Mutex
	running chan struct{} // closed at the end of the current reading; nil between readings
	value   T
	at      time.Time // when value was read; zero: never
	tried   time.Time
	asked   time.Time     // start of the current reading
	took    time.Duration // duration of the last successful reading
	err     error         // of the last reading
}

const (
	backgroundTime = time.Minute      // the longest time limit of a reading
	silentTime     = 10 * time.Second // the shortest time limit, after a successful reading
	oldAfter       = 5 * time.Second  // a value is old if the next reading is this much overdue
)

// limit returns the time limit of the next reading: three times the duration of the last one, within bounds. So a silent
// broker is asked again soon, and a broker with many queues has enough time.
func (b *background[T]) limit() time.Duration {
	if b.took == 0 {
		return backgroundTime
	}
	return min(max(3*b.took, silentTime), backgroundTime)
}

// old reports whether the value that was read at a moment is overdue for the next reading. Perhaps no reading has failed
// yet.
func (b *background[T]) old(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(at) > b.every+b.took+oldAfter && b.running != nil && time.Since(b.asked) > oldAfter
}

// tooOld is the age at which pages stop showing a value, after a pause or failed readings. It is longer than the slowest
// reading and the pause before it.
const tooOld = 2 * backgroundTime

// freshWait is how long get waits for a new value if no page has needed the value for a while.
const freshWait = 500 * time.Millisecond

// get returns the last value and its time, and starts another reading if one is due. Without a value it waits for one
// until wait after the start of the reading, so that a page that gets the value several times waits once. at is zero if
// there is still none. If the value is old, it waits up to freshWait for a new one.
func (b *background[T]) get(ctx context.Context) (value T, at time.Time, err error) {
	return b.getWithin(ctx, func(asked time.Time) time.Duration { return b.wait - time.Since(asked) })
}

// getWithin is get, with the time to wait for the first value of a reading that started at a moment.
func (b *background[T]) getWithin(ctx context.Context, wait func(asked time.Time) time.Duration) (value T, at time.Time, err error) {
	b.start(ctx)
	b.mu.Lock()
	running, patience := b.running, b.patience(wait)
	b.mu.Unlock()
	if patience > 0 && running != nil {
		patience := time.NewTimer(patience)
		defer patience.Stop()
		select {
		case <-running:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > tooOld {
		return value, at, b.err
	}
	return b.value, b.at, b.err
}

// start starts another reading if one is due, and returns at once. A page with several parts starts all of them before
// it waits for one.
func (b *background[T]) start(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil && time.Since(b.tried) >= b.every {
		b.running, b.asked = make(chan struct{}), time.Now()
		go b.renew(context.WithoutCancel(ctx), b.running)
	}
}

// patience returns how long get waits for the current reading. The caller holds the lock.
func (b *background[T]) patience(wait func(asked time.Time) time.Duration) time.Duration {
	switch age := time.Since(b.at); {
	case age > tooOld:
		return wait(b.asked)
	case age > b.every+b.took+oldAfter:
		return min(b.wait, freshWait-time.Since(b.asked))
	}
	return 0
}

// must is like get, but waits for the first value up to wait, and returns an error if there is none.
func (b *background[T]) must(ctx context.Context) (T, error) {
	value, at, err := b.getWithin(ctx, func(time.Time) time.Duration { return b.wait })
	switch {
	case !at.IsZero():
		return value, nil
	case err == nil:
		err = context.DeadlineExceeded
	}
	return value, err
}

// forget makes the next get wait for a new value.
func (b *background[T]) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.tried = time.Time{}, time.Time{}
}

func (b *background[T]) renew(ctx context.Context, ended chan<- struct{}) {
	b.mu.Lock()
	began, limit := b.asked, b.limit()
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err := guarded(b.log, "a reading in the background", func() (T, error) { return b.read(ctx) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err == nil {
		b.value, b.at = value, time.Now()
		b.took = max(b.at.Sub(began), time.Nanosecond)
	}
	b.tried, b.running = time.Now(), nil
	close(ended)
}
