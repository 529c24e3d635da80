package simulator

import (
	"context"
	"time"
)

// queue is a virtual queue, first in, first out, with virtual workers that each take one
// message at a time. Messages taken are not part of it.
type queue[M any] struct {
	clock   *Clock
	idle    int                   // workers
	begin   func(M) time.Duration // returns how long the message will take
	end     func(M)               // after that time, before the worker takes the next one
	waiting []M
}

// put adds messages, which idle workers take at once.
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
