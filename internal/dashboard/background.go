package dashboard

import (
	"context"
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

	mu      sync.Mutex
	running chan struct{} // closed when the reading underway ends; nil between readings
	value   T
	at      time.Time // when value was read; zero: never
	tried   time.Time
	err     error // of the last reading
}

const backgroundTime = time.Minute // of a reading, at most

// get returns what was read last, and has it read anew if that is long ago. What was never read
// is waited for a while; at is zero if it is still not there.
func (b *background[T]) get(ctx context.Context) (value T, at time.Time, err error) {
	b.mu.Lock()
	if b.running == nil && time.Since(b.tried) >= b.every {
		b.running = make(chan struct{})
		go b.renew(context.WithoutCancel(ctx), b.running)
	}
	running := b.running
	never := b.at.IsZero()
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
	return b.value, b.at, b.err
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
	value, err := b.read(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err == nil {
		b.value, b.at = value, time.Now()
	}
	b.tried, b.running = time.Now(), nil
	close(ended)
}
