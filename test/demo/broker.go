package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/archive"
)

// The queues of the demo's tasks.
const (
	expressQueue  = "express:" + archive.LoadTask
	slowQueue     = archive.LoadTask
	saveQueue     = "save_code_now:" + archive.LoadTask
	archivesQueue = archive.LoadArchivesTask
)

var taskQueues = []string{archive.ListTask, archive.ListArchivesTask, expressQueue, slowQueue, saveQueue, archivesQueue}

// limits are how long queues may be.
var limits = map[string]int{expressQueue: expressSlots, slowQueue: slowSlots, archivesQueue: archivesLimit}

// queue is what is known of one.
type queue struct {
	Ready     int // messages at the last look
	Peak      int // the greatest length seen, with messages that are unacknowledged
	Published int // messages, up to the last figures of the management API
}

// broker watches the queues. It asks RabbitMQ itself, and not our code, which it is there to
// check.
//
// No one question gives a queue's exact length: a passive declaration counts at once, but only
// messages that are ready; the management API also counts those that are unacknowledged, but up
// to five seconds late. Both are true of some moment, so the highest figure of either is a length
// that the queue has really had.
type broker struct {
	resources *resources

	mu     sync.Mutex
	queues map[string]queue
}

func newBroker(r *resources) *broker { return &broker{resources: r, queues: map[string]queue{}} }

func (b *broker) look() map[string]queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.queues)
}

func (b *broker) change(name string, change func(*queue)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	change(&q)
	b.queues[name] = q
}

// run watches until ctx ends. Its connection may be cut like all others, and is then made
// anew.
func (b *broker) run(ctx context.Context) {
	var conn *amqp.Connection
	var figures time.Time
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			if conn != nil {
				_ = conn.Close()
			}
			return
		case <-tick.C:
		}
		if time.Since(figures) >= time.Second {
			figures = time.Now()
			b.readFigures(ctx)
		}
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = amqp.Dial(b.resources.brokerURL); err != nil {
				continue // it is tried again
			}
		}
		b.countReady(conn)
	}
}

// readFigures asks the management API for all queues.
func (b *broker) readFigures(ctx context.Context) {
	answer, err := b.resources.manage(ctx, http.MethodGet, "", "api", "queues", b.resources.name)
	var queues []struct {
		Name     string
		Messages int // ready and unacknowledged
		Counts   struct {
			Publish int
		} `json:"message_stats"`
	}
	if err != nil || json.Unmarshal(answer, &queues) != nil {
		return // it is asked again
	}
	for _, q := range queues {
		b.change(q.Name, func(known *queue) {
			known.Peak = max(known.Peak, q.Messages)
			known.Published = max(known.Published, q.Counts.Publish)
		})
	}
}

// countReady asks for the ready messages of the queues that have a limit and are there.
func (b *broker) countReady(conn *amqp.Connection) {
	known := b.look()
	channel, err := conn.Channel()
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	for name := range limits {
		if _, declared := known[name]; !declared {
			continue // to ask would close the channel
		}
		state, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return
		}
		b.change(name, func(q *queue) { q.Ready, q.Peak = state.Messages, max(q.Peak, state.Messages) })
	}
}

// cut closes all connections of the demo's virtual host, and returns how many.
func (r *resources) cut(ctx context.Context) (n int, err error) {
	answer, err := r.manage(ctx, http.MethodGet, "", "api", "vhosts", r.name, "connections")
	if err != nil {
		return 0, err
	}
	var connections []struct{ Name string }
	if err := json.Unmarshal(answer, &connections); err != nil {
		return 0, err
	}
	for _, c := range connections {
		// One that has ended by itself is no connection any more.
		if _, err := r.manage(ctx, http.MethodDelete, "", "api", "connections", c.Name); err == nil {
			n++
		}
	}
	return n, nil
}
