package celery

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// queueTimeout is the default time limit for a queue's answer.
const queueTimeout = 2 * time.Second

// questions makes requests about queues, on channels of their own. A queue that doesn't answer in time costs that
// time once: until its answer comes, every further request fails at once. The answer comes when the queue's node
// responds, or when the connection ends.
type questions struct {
	timeout time.Duration
	tasks   *sync.WaitGroup // of requests without a waiting call

	overdue awaited
}

// awaited counts unanswered requests, by queue.
type awaited struct {
	m      sync.Mutex
	queues map[string]int
}

func (a *awaited) add(queue string, more int) {
	a.m.Lock()
	defer a.m.Unlock()
	if a.queues == nil {
		a.queues = map[string]int{}
	}
	if a.queues[queue] += more; a.queues[queue] == 0 {
		delete(a.queues, queue)
	}
}

// any reports whether an answer of a queue for which such returns true is awaited.
func (a *awaited) any(such func(queue string) bool) bool {
	a.m.Lock()
	defer a.m.Unlock()
	for queue := range a.queues {
		if such(queue) {
			return true
		}
	}
	return false
}

// ask calls f, which makes a request about a queue, and waits for it, up to the time-out.
func (q *questions) ask(ctx context.Context, queue string, f func() error) error {
	if q.overdue.any(func(other string) bool { return other == queue }) {
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
	q.overdue.add(queue, 1)
	q.tasks.Go(func() {
		<-done
		q.overdue.add(queue, -1)
	})
	return q.noAnswer(queue)
}

func (q *questions) noAnswer(queue string) error {
	return &QueueDownError{queue, fmt.Sprintf("no answer within %s", q.timeout)}
}
