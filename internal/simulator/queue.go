package simulator

import (
	"context"
	"time"
)

// A Queue is a virtual queue: first in, first out, with room for some messages.
// What a worker has taken is in it no more.
type Queue[M any] struct {
	capacity int
	messages []M
	put      func() // tells the workers
}

// NewQueue makes an empty queue.
func NewQueue[M any](capacity int) *Queue[M] {
	return &Queue[M]{capacity: capacity, put: func() {}}
}

// Len is how many messages wait.
func (q *Queue[M]) Len() int { return len(q.messages) }

// Free is for how many more messages there is room.
func (q *Queue[M]) Free() int { return q.capacity - len(q.messages) }

// Put adds messages; idle workers take theirs at once.
func (q *Queue[M]) Put(messages ...M) {
	q.messages = append(q.messages, messages...)
	q.put()
}

// take takes the first message; there must be one.
func (q *Queue[M]) take() M {
	m := q.messages[0]
	var none M
	q.messages[0] = none
	q.messages = q.messages[1:]
	return m
}

// Work is what becomes of a message that a worker takes.
type Work[M any] interface {
	// Begin says how long it will take.
	Begin(message M) time.Duration
	// End comes after that time, before the worker takes the next message.
	End(ctx context.Context, message M) error
}

// StartWorkers has virtual workers take messages of a queue, one at a time each.
func StartWorkers[M any](clock *Clock, queue *Queue[M], workers int, work Work[M]) {
	idle := workers
	var serve func()
	serve = func() {
		for idle > 0 && queue.Len() > 0 {
			idle--
			m := queue.take()
			clock.After(work.Begin(m), func(ctx context.Context) error {
				idle++
				if err := work.End(ctx, m); err != nil {
					return err
				}
				serve()
				return nil
			})
		}
	}
	queue.put = serve
	serve()
}
