package simulator

import (
	"context"
	"time"
)

// A Queue is a virtual queue: first in, first out, with a limited capacity. Messages taken
// by a worker are not part of it.
type Queue[M any] struct {
	capacity int
	messages []M
	put      func() // tells the workers
}

func NewQueue[M any](capacity int) *Queue[M] {
	return &Queue[M]{capacity: capacity, put: func() {}}
}

// Len returns the number of waiting messages.
func (q *Queue[M]) Len() int { return len(q.messages) }

// Free returns the remaining capacity.
func (q *Queue[M]) Free() int { return q.capacity - len(q.messages) }

// Put adds messages, which idle workers take at once.
func (q *Queue[M]) Put(messages ...M) {
	q.messages = append(q.messages, messages...)
	q.put()
}

// take removes the first message; there must be one.
func (q *Queue[M]) take() M {
	m := q.messages[0]
	clear(q.messages[:1])
	q.messages = q.messages[1:]
	return m
}

// Work processes the messages that workers take.
type Work[M any] interface {
	// Begin returns how long the message will take.
	Begin(message M) time.Duration
	// End is called after that time, before the worker takes the next message.
	End(ctx context.Context, message M) error
}

// StartWorkers starts virtual workers that each take one message of a queue at a time.
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
