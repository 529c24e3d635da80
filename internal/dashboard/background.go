package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// background is something that takes long to read, such as what the broker says of all queues.
// It is read while somebody asks for it, by one reader at a time, and pages show what was read
// last, with when that was.
type background[T any] struct {
	every time.Duration // between two readings
	wait  time.Duration // for what was never read
	read  func(ctx context.Context) (T, error)
	log   *slog.Logger // of panics

	mu      sync.Mutex
	running chan struct{} // closed when the reading underway ends; nil between readings
	value   T
	at      time.Time // when value was read; zero: never
	tried   time.Time
	err     error // of the last reading
}

const backgroundTime = time.Minute // of a reading, at most

// tooOld is the age from which what was read counts as never read: nobody has looked meanwhile, or
// it can't be read. It is longer than the slowest reading and the pause before it.
const tooOld = 2 * backgroundTime

// get returns what was read last, and has it read anew if that is some seconds ago. What was never
// read is waited for a while; at is zero if it is still not there.
func (b *background[T]) get(ctx context.Context) (value T, at time.Time, err error) {
	b.mu.Lock()
	if b.running == nil && time.Since(b.tried) >= b.every {
		b.running = make(chan struct{})
		go b.renew(context.WithoutCancel(ctx), b.running)
	}
	running := b.running
	never := time.Since(b.at) > tooOld
	b.mu.Unlock()
	if never && running != nil {
		patience := time.NewTimer(b.wait)
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

// must is get, where what is not there is an error.
func (b *background[T]) must(ctx context.Context) (T, error) {
	value, at, err := b.get(ctx)
	switch {
	case !at.IsZero():
		return value, nil
	case err == nil:
		err = context.DeadlineExceeded
	}
	return value, err
}

// forget has the next get wait for a new reading.
func (b *background[T]) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.tried = time.Time{}, time.Time{}
}

func (b *background[T]) renew(ctx context.Context, ended chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTime)
	defer cancel()
	value, err := guarded(b.log, "a reading in the background", func() (T, error) { return b.read(ctx) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err == nil {
		b.value, b.at = value, time.Now()
	}
	b.tried, b.running = time.Now(), nil
	close(ended)
}
