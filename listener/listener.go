package listener

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// prefetch is how many unacknowledged messages the broker sends: those of the batches that are applied, and of the next one.
const prefetch = (atOnce + 1) * maxMessages

// ConsumerOptions are the options of a celery.Consumer that is a Listener's Source. The queue is the Python
// scheduler's.
func ConsumerOptions(log *slog.Logger) celery.ConsumerOptions {
	return celery.ConsumerOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler start-listener"},
		Logger:            log,
		Queue:             celery.EventsQueue,
		Bindings:          []celery.Binding{celery.EventsBinding},
		Prefetch:          prefetch,
	}
}

const (
	// writeTimeout bounds one transaction. Without it, a server that vanishes without closing its connections would
	// block the listener for as long as TCP retries.
	writeTimeout = time.Minute
	applyTimeout = 5 * time.Minute // of one try of a batch
)

// Source delivers messages: a *celery.Consumer.
type Source interface {
	// Run sends the queue's messages to out, in order, until ctx ends. They can still be acknowledged after that,
	// until Close.
	Run(ctx context.Context, out chan<- celery.Delivery) error
	// AckUpTo acknowledges a message and all before it.
	AckUpTo(d celery.Delivery) error
	Close() error
}

// Store is the listener's part of the database.
type Store interface {
	Now() time.Time
	// ApplyInTurn writes all outcomes or none, and may be called again with the same ones. A
	// *postgres.RefusedError is caused by one of the outcomes, any other error by the database. Outcomes that are applied
	// after a call of locked follow these, unless these fail.
	ApplyInTurn(ctx context.Context, outcomes []settle.Outcome, locked func()) error
	// RejectEvents stores the events that are of our runs.
	RejectEvents(ctx context.Context, events []db.RejectedEvent) error
}

// Options configure a Listener.
type Options struct {
	Source     Source
	Store      Store
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Tracer     *tracing.Tracer // nil: no traces
}

// Listener applies Celery's events to the database.
type Listener struct {
	Options
	metrics    *metrics
	complaints service.LogLimit
	workers    *workers
	pulse      *service.Pulse
	size       bulk.BatchSize // of transactions
	unread     *reading       // a message of which a batch has only a part; nil for none
	slots      chan struct{}  // one token for each batch that is applied
	newest     *turn          // of the newest batch that is or was applied
}

// New makes a Listener, which does nothing before Run. It registers the metrics at once; two Listeners on one
// registry panic.
func New(o Options) *Listener {
	w := newWorkers()
	return &Listener{
		Options: o,
		metrics: newMetrics(o.Registerer, w, o.Store.Now),
		workers: w,
		slots:   make(chan struct{}, atOnce),
		newest:  firstTurn(),
	}
}

// Run works until ctx ends, then applies and acknowledges the batches in hand, within the grace period of a
// service.Group. If the database is unavailable, the broker will deliver them again. Run then closes the source
// and returns nil. It returns an error only if the source ends for good.
func (l *Listener) Run(ctx context.Context) error {
	l.pulse = service.HealthOf(ctx).Pulse(l.Log, "applying events")
	defer l.pulse.Remove()
	deliveries := make(chan celery.Delivery)
	ended := make(chan struct{})
	var sourceErr error // set when ended is closed
	go func() {
		defer close(ended)
		sourceErr = l.Source.Run(ctx, deliveries)
	}()
	var err error
	for err == nil && ctx.Err() == nil {
		var b *batch
		if b, err = l.collect(ctx, deliveries, ended); !b.empty() {
			l.begin(ctx, b)
		}
	}
	for range atOnce {
		l.slots <- struct{}{} // no batch is applied any more
	}
	<-ended
	if closeErr := l.Source.Close(); closeErr != nil {
		l.Log.Debug("event queue not closed cleanly", "error", closeErr)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, sourceErr)
}

var errSourceEnded = errors.New("nothing reads the event queue any more")

// collect gathers a batch. When ctx or the source ends, it returns what it has.
func (l *Listener) collect(ctx context.Context, deliveries <-chan celery.Delivery, ended <-chan struct{}) (*batch, error) {
	b := newBatch(l.newest)
	if l.unread != nil {
		l.readOn(b)
	}
	var timeout <-chan time.Time // nil while the batch is empty
	for !b.full() {
		if timeout == nil && !b.empty() {
			timer := time.NewTimer(maxDelay)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-ctx.Done():
			return b, nil
		case <-ended:
			return b, errSourceEnded
		case <-timeout:
			return b, nil
		case d := <-deliveries:
			l.read(b, d)
		}
	}
	return b, nil
}

// trace adds the ends of runs to the traces of their tasks.
func (l *Listener) trace(outcomes []settle.Outcome) {
	for _, o := range outcomes {
		if o.End != nil {
			failed := o.End.Status != model.RunEventful && o.End.Status != model.RunUneventful
			l.Tracer.Outcome(o.BackendID, string(o.End.Status), o.Received, failed)
		}
	}
}

// apply writes a batch. After an error the caller may call it again with the same batch: it continues at the first
// unwritten part.
func (l *Listener) apply(ctx context.Context, b *batch) (err error) {
	started := time.Now()
	b.applied, err = l.size.Write(b.applied, len(b.outcomes), func(first, end int) error {
		return service.Within(ctx, writeTimeout, func(ctx context.Context) error {
			return l.Store.ApplyInTurn(ctx, b.outcomes[first:end], b.lockedUpTo(end))
		})
	}, func(i int, refused *postgres.RefusedError) {
		fault, panicked := errors.AsType[*service.PanicError](refused)
		if panicked {
			l.fault(fault)
		} else {
			l.complain(Refused, refused.Error())
		}
		b.reject(b.outcomes[i], describe(b.outcomes[i]), refused.SQLState, refused.Error())
		b.rejected[len(b.rejected)-1].Always = panicked
	})
	if err != nil {
		return err
	}
	if err := l.setAside(ctx, b); err != nil {
		return err
	}
	l.metrics.batchSize.Observe(float64(b.events))
	l.metrics.batchTime.Observe(time.Since(started).Seconds())
	return nil
}

// setAside stores the events of a batch that can't be applied. If PostgreSQL refuses such an event as well, it is
// only logged.
func (l *Listener) setAside(ctx context.Context, b *batch) (err error) {
	before := b.kept
	b.kept, err = l.size.Write(b.kept, len(b.rejected), func(first, end int) error {
		return service.Within(ctx, writeTimeout, func(ctx context.Context) error { return l.Store.RejectEvents(ctx, b.rejected[first:end]) })
	}, func(i int, refused *postgres.RefusedError) {
		l.Log.Error("a rejected event is not kept", "task_id", b.rejected[i].BackendID, "error", refused)
	})
	l.metrics.rejected.Add(float64(b.kept - before))
	return err
}

// Workers returns the workers with an event in the last minute, 500 at most.
func (l *Listener) Workers() map[string]db.Worker { return l.workers.list(l.Store.Now()) }
