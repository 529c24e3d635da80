package celery

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// queueTimeout is how long a queue may take to answer, by default.
const queueTimeout = 2 * time.Second

// questions asks about queues, on channels of their own. A queue that doesn't answer in
// time costs that time once: while the answer is awaited, every further question fails at
// once. It comes when the queue's node does, or when the connection ends.
type questions struct {
	timeout time.Duration
	tasks   *sync.WaitGroup // of questions that nobody waits for any more

	m       sync.Mutex
	overdue map[string]int // by queue
}

// ask calls f, which asks about a queue, and waits for it, but no longer than the time-out.
func (q *questions) ask(ctx context.Context, queue string, f func() error) error {
	q.m.Lock()
	waiting := q.overdue[queue]
	q.m.Unlock()
	if waiting > 0 {
		return q.noAnswer(queue)
	}
	done := make(chan error, 1)
	q.tasks.Go(func() { done <- f() })
	timer := time.NewTimer(q.timeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return ofQueue(queue, err)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	q.wait(queue, 1)
	q.tasks.Go(func() {
		<-done
		q.wait(queue, -1)
	})
	return q.noAnswer(queue)
}

func (q *questions) wait(queue string, more int) {
	q.m.Lock()
	defer q.m.Unlock()
	if q.overdue == nil {
		q.overdue = map[string]int{}
	}
	if q.overdue[queue] += more; q.overdue[queue] == 0 {
		delete(q.overdue, queue)
	}
}

func (q *questions) noAnswer(queue string) error {
	return &QueueDownError{queue, fmt.Sprintf("no answer within %s", q.timeout)}
}
