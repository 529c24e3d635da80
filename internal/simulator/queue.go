package simulator

import (
	"context"
	"time"
)

// queue is a virtual FIFO queue with virtual workers, each of which takes one message at a time.
type queue[M any] struct {
	clock   *Clock
	idle    int                   // workers
	begin   func(M) time.Duration // called when a worker takes a message; returns its runtime
	end     func(M)               // called after that time, before the worker takes the next message
	waiting []M
}

// put adds messages. Idle workers take them at once.
func (q *queue[M]) put(messages ...M) {
	q.waiting = append(q.waiting, messages...)
	for q.idle > 0 && len(q.waiting) > 0 {
		m := q.waiting[0]
		clear(q.waiting[:1])
		q.waiting = q.waiting[1:]
		q.idle--
		q.clock.After(q.begin(m), func(context.Context) error {
			q.idle++
			q.end(m)
			q.put()
			return nil
		})
	}
}
