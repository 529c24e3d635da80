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

// prefetch is how many messages the broker sends ahead of their acknowledgement.
const prefetch = 1000

// ConsumerOptions are those of a celery.Consumer that is to be a Listener's
// Source. The queue is the Python scheduler's.
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
	// writeTimeout is of one transaction: a server that vanishes without closing its connections
	// would otherwise be waited for as long as TCP does.
	writeTimeout = time.Minute
	applyTimeout = 5 * time.Minute // of one try of a batch
)

// Source is where messages come from: a *celery.Consumer.
type Source interface {
	// Run sends what is in the queue to out, in order, until ctx ends. What it
	// sent can still be acknowledged then, until Close.
	Run(ctx context.Context, out chan<- celery.Delivery) error
	// AckUpTo acknowledges a message and all before it.
	AckUpTo(d celery.Delivery) error
	Close() error
}

// Store is what the listener needs of the database.
type Store interface {
	Now() time.Time
	// ApplyOutcomes writes all outcomes or none, and may be called again with
	// the same ones. A *postgres.RefusedError says that one of them is at fault, any
	// other error that the database is.
	ApplyOutcomes(ctx context.Context, outcomes []settle.Outcome) error
	// RejectEvents keeps those events that are about runs of ours.
	RejectEvents(ctx context.Context, events []db.RejectedEvent) error
}

// Options are what a Listener is made of.
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
	unread     *reading       // of which a part is in a batch; nil for none
}

// New makes a Listener that does nothing before Run. Its metrics are registered
// at once; registering two at one registry panics.
func New(o Options) *Listener {
	w := newWorkers()
	return &Listener{
		Options: o,
		metrics: newMetrics(o.Registerer, w, o.Store.Now),
		workers: w,
	}
}

// Run works until ctx ends, then applies and acknowledges the batch in hand
// (within the grace period of a service.Group; if the database is away, the
// broker will deliver it again), closes the source and returns nil. It returns
// an error only if the source gives up for good.
func (l *Listener) Run(ctx context.Context) error {
	l.pulse = service.HealthOf(ctx).Pulse(l.Log, "applying events")
	defer l.pulse.Gone()
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
			l.settle(ctx, b)
		}
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

// collect gathers a batch. It returns what it has when ctx or the source ends.
func (l *Listener) collect(ctx context.Context, deliveries <-chan celery.Delivery, ended <-chan struct{}) (*batch, error) {
	b := &batch{}
	if l.unread != nil {
		l.readOn(b)
	}
	var timeout <-chan time.Time // none before there is something
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

// settle applies a batch, trying until the database takes it, and acknowledges it.
// Only when ctx or the grace period has ended does it give up, and leave the batch
// to be delivered again.
func (l *Listener) settle(ctx context.Context, b *batch) {
	inFlight := service.InFlight(ctx)
	var backoff service.Backoff
	for err := l.try(inFlight, b); err != nil; err = l.try(inFlight, b) {
		if inFlight.Err() != nil {
			return
		}
		l.metrics.databaseErrors.Inc()
		l.pulse.Failed(err)
		if backoff.Wait(ctx) != nil {
			return
		}
	}
	l.trace(b.outcomes)
	if b.last != nil {
		if err := l.Source.AckUpTo(*b.last); err != nil {
			// The connection is gone: the batch comes again, and changes nothing.
			l.Log.Debug("batch not acknowledged", "error", err)
		} else {
			l.metrics.lag.acknowledged(time.Now(), l.Store.Now())
		}
	}
	l.pulse.Done(0)
}

// try applies a batch within a time in which the listener does not count as stuck.
func (l *Listener) try(ctx context.Context, b *batch) error {
	l.pulse.Begin()
	return service.Within(ctx, applyTimeout, func(ctx context.Context) error { return l.apply(ctx, b) })
}

// trace adds the ends of runs to the traces of their tasks.
func (l *Listener) trace(outcomes []settle.Outcome) {
	for _, o := range outcomes {
		if o.End != nil {
			failed := o.End.Status != model.RunEventful && o.End.Status != model.RunUneventful
			l.Tracer.Outcome(o.BackendID, string(o.End.Status), o.Heard, failed)
		}
	}
}

// apply writes a batch. After an error it may be called again with the same one, and goes
// on where it was.
func (l *Listener) apply(ctx context.Context, b *batch) (err error) {
	started := time.Now()
	b.applied, err = l.size.Write(b.applied, len(b.outcomes), func(first, end int) error {
		return service.Within(ctx, writeTimeout, func(ctx context.Context) error { return l.Store.ApplyOutcomes(ctx, b.outcomes[first:end]) })
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

// setAside keeps the events of a batch that can't be applied. What the table refuses as
// well is only in the log.
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

// Workers returns the workers that were heard of in the last minute, 500 at most.
func (l *Listener) Workers() map[string]db.Worker { return l.workers.tell(l.Store.Now()) }
