package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv/swh"
)

// The queues of the demo's tasks.
const (
	expressQueue  = "express:" + swh.LoadTask
	slowQueue     = swh.LoadTask
	saveQueue     = "save_code_now:" + swh.LoadTask
	archivesQueue = swh.LoadArchivesTask
)

var taskQueues = []string{swh.ListTask, swh.ListArchivesTask, expressQueue, slowQueue, saveQueue, archivesQueue}

// limits are the largest allowed lengths of queues.
var limits = map[string]int{expressQueue: expressSlots, slowQueue: slowSlots, archivesQueue: archivesLimit}

// queue is the state of a queue.
type queue struct {
	Ready     int       // ready messages at the last reading
	Peak      int       // the greatest length observed, with unacknowledged messages
	Published int       // published messages, by the last figures of the management API
	Grew      time.Time // when these figures last grew
}

// watcher observes queues through RabbitMQ, independently of our code, which it checks.
//
// No single query gives a queue's exact length. A passive declare is current but counts only ready messages. The
// management API also counts unacknowledged ones, but is up to five seconds late. Each figure is true at some time,
// so that the largest one is a length that the queue had.
type watcher struct {
	conn    *amqp.Connection
	figures string    // URL of the management API's figures
	asked   time.Time // time of their last reading
	queues  map[string]queue
}

func newWatcher(p *program, s *servers) *watcher {
	conn, err := amqp.Dial(s.broker.URL)
	p.must(err)
	p.Cleanup(func() { _ = conn.Close() })
	return &watcher{conn: conn, figures: s.broker.ManagementURL + "api/queues/" + s.virtualHost(), queues: map[string]queue{}}
}

// read reads the ready messages of the existing queues with a limit and, once a second, the figures of all queues.
func (w *watcher) read(ctx context.Context) error {
	if time.Since(w.asked) >= time.Second {
		w.asked = time.Now()
		if err := w.readFigures(ctx); err != nil {
			return err
		}
	}
	channel, err := w.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }()
	for name, q := range w.queues {
		if limits[name] > 0 {
			state, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			q.Ready, q.Peak = state.Messages, max(q.Peak, state.Messages)
			w.queues[name] = q
		}
	}
	return nil
}

func (w *watcher) readFigures(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.figures, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var figures []struct {
		Name     string
		Messages int // ready and unacknowledged
		Counts   struct {
			Publish int
		} `json:"message_stats"`
	}
	err = json.NewDecoder(response.Body).Decode(&figures)
	for _, f := range figures {
		q := w.queues[f.Name]
		if f.Counts.Publish > q.Published {
			q.Grew = time.Now()
		}
		q.Peak, q.Published = max(q.Peak, f.Messages), max(q.Published, f.Counts.Publish)
		w.queues[f.Name] = q
	}
	return err
}
