package main

import (
	"context"
	"encoding/json"
	"net/http"
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

// watcher of the queues asks RabbitMQ itself, and not our code, which it is there to check.
//
// No one question gives a queue's exact length: a passive declaration counts at once, but only
// messages that are ready; the management API also counts those that are unacknowledged, but up
// to five seconds late. Both are true of some moment, so the highest figure of either is a length
// that the queue has really had.
type watcher struct {
	conn    *amqp.Connection
	figures string    // URL of those of the management API
	asked   time.Time // when they were
	queues  map[string]queue
}

func newWatcher(p *program, s *servers) *watcher {
	conn, err := amqp.Dial(s.broker.URL)
	p.must(err)
	p.Cleanup(func() { _ = conn.Close() })
	return &watcher{conn: conn, figures: s.broker.ManagementURL + "api/queues/" + s.virtualHost(), queues: map[string]queue{}}
}

// look asks for the ready messages of the queues that have a limit and are there, and once a
// second for the figures of all.
func (w *watcher) look(ctx context.Context) error {
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
		q.Peak, q.Published = max(q.Peak, f.Messages), max(q.Published, f.Counts.Publish)
		w.queues[f.Name] = q
	}
	return err
}
