package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sampler watches the length of the visits' queue. It asks the broker itself,
// and not our code, which it is there to check.
//
// No one question gives the exact length: a passive declaration counts at once,
// but only messages that are ready; the management API also counts those that
// are unacknowledged, but up to five seconds late. Both are true of some moment,
// so the highest figure of either is a length that the queue has really had.
type sampler struct {
	resources *resources
	ready     atomic.Int64 // messages that were ready at the last look
	peak      int          // the greatest length seen; only run changes it
}

// Intervals between looks at the queue.
const (
	readyInterval  = 50 * time.Millisecond
	lengthInterval = time.Second
)

// current returns the messages that were ready at the last look.
func (s *sampler) current() int { return int(s.ready.Load()) }

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) error {
	conn, err := amqp.Dial(s.resources.brokerURL)
	if err != nil {
		return fmt.Errorf("sample the queue: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var channel *amqp.Channel
	ready, length := time.NewTicker(readyInterval), time.NewTicker(lengthInterval)
	defer ready.Stop()
	defer length.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ready.C:
			if channel == nil || channel.IsClosed() {
				if channel, err = conn.Channel(); err != nil {
					return fmt.Errorf("sample the queue: %w", err)
				}
			}
			queue, err := channel.QueueDeclarePassive(loadTask, true, false, false, false, nil)
			if missing := (*amqp.Error)(nil); errors.As(err, &missing) && missing.Code == amqp.NotFound {
				continue // not declared yet
			}
			if err != nil {
				return fmt.Errorf("sample the queue: %w", err)
			}
			s.ready.Store(int64(queue.Messages))
			s.peak = max(s.peak, queue.Messages)
		case <-length.C:
			queue, err := s.resources.queue(ctx, loadTask)
			if err != nil {
				continue // not declared yet, or ctx has ended
			}
			s.peak = max(s.peak, queue.Messages)
		}
	}
}

// queueState is what the management API says of a queue.
type queueState struct {
	Messages int `json:"messages"` // ready and unacknowledged
	Counts   struct {
		Publish int `json:"publish"` // since the queue was made
	} `json:"message_stats"`
}

func (r *resources) queue(ctx context.Context, name string) (state queueState, err error) {
	answer, err := r.manage(ctx, http.MethodGet, "", "api", "queues", r.name, name)
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal(answer, &state)
}
