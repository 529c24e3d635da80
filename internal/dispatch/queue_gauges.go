package dispatch

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
)

const (
	observePeriod = 30 * time.Second // of a QueueGauges
	// A QueueGauges observes observedTogether queues, waits for up to observePause, and so on. Claims would wait for the
	// answers about a thousand queues otherwise. After observeSlowly it observes the rest together.
	observedTogether = 16
	observePause     = 200 * time.Millisecond
	observeSlowly    = observePeriod / 2
)

// QueueGauges show the present numbers of messages and consumers of queues, also of queues without claims.
type QueueGauges struct {
	Observer Observer
	Log      *slog.Logger
	// Queues lists the queues to measure. Queues that don't exist are left out.
	Queues func(ctx context.Context) ([]string, error)
	// Unacknowledged adds the number of unacknowledged messages, from the management API.
	Unacknowledged bool

	messages, consumers *prometheus.GaugeVec
}

// newMessages makes the gauge that claims and QueueGauges share.
func newMessages() *prometheus.GaugeVec {
	return newGauge(nil, "swh_scheduler_queue_messages", "Messages of a queue: ready and unacknowledged at the broker, and outgoing; ready ones are counted every half minute, the others as of the last claim for it.", "queue", "state")
}

// Register registers the gauges. slots, if not nil, counts messages as well.
func (g *QueueGauges) Register(reg prometheus.Registerer, slots *Slots) {
	g.consumers = newGauge(reg, "swh_scheduler_queue_consumers", "Number of consumers of a queue.", "queue")
	if slots != nil {
		g.messages = slots.metrics.messages
		return
	}
	g.messages = newMessages()
	reg.MustRegister(g.messages)
}

// Run measures every half minute until ctx ends.
func (g *QueueGauges) Run(ctx context.Context) error {
	return service.Every(ctx, observePeriod, g.Log, "measuring queues", g.RunOnce)
}

// RunOnce measures once.
func (g *QueueGauges) RunOnce(ctx context.Context) error {
	queues, err := g.Queues(ctx)
	if err != nil {
		return err
	}
	observed, err := g.observe(ctx, queues)
	if err != nil {
		return err
	}
	g.consumers.Reset() // removes queues that are gone
	for _, queue := range queues {
		length, err := observed[queue].Length(0)
		switch {
		case celery.IsOfQueue(err), err == nil && !length.Exists:
			g.messages.DeletePartialMatch(prometheus.Labels{"queue": queue})
			continue
		case err != nil:
			return err
		}
		g.messages.WithLabelValues(queue, "ready").Set(float64(length.Ready))
		g.consumers.WithLabelValues(queue).Set(float64(length.Consumers))
		if g.Unacknowledged && !length.Unknown {
			g.messages.WithLabelValues(queue, "unacknowledged").Set(float64(length.Unacknowledged))
		}
	}
	return nil
}

// observe observes queues, some at a time. It returns an error only if ctx ends.
func (g *QueueGauges) observe(ctx context.Context, queues []string) (map[string]celery.Observation, error) {
	observed := make(map[string]celery.Observation, len(queues))
	began := time.Now()
	pause := min(observePause, observeSlowly*observedTogether/time.Duration(max(1, len(queues))))
	for len(queues) > 0 {
		n := min(observedTogether, len(queues))
		if time.Since(began) > observeSlowly {
			n = len(queues)
		}
		maps.Copy(observed, g.Observer.Observe(ctx, time.Now, queues[:n], g.Unacknowledged))
		if queues = queues[n:]; len(queues) > 0 {
			if err := service.Sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
	return observed, nil
}
