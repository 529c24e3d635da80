package listener

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql"
)

// prefetch is how many messages the broker sends ahead of their acknowledgement.
const prefetch = 1000

// ConsumerOptions are those of a celery.Consumer that is to be a Listener's
// Source. The queue is the peer's.
func ConsumerOptions(log *slog.Logger) celery.ConsumerOptions {
	return celery.ConsumerOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler listener"},
		Logger:            log,
		Queue:             "celeryev.listener",
		Bindings:          []celery.Binding{celery.EventsBinding},
		Prefetch:          prefetch,
	}
}

const (
	writeTimeout = time.Minute // of one transaction
	housekeeping = time.Hour   // between two sweeps of what is old

	// Repeats of a run's events come within minutes, or after an outage.
	startsKept = 2 * 24 * time.Hour
	// Enough to see what a task type takes lately.
	durationsKept = 14 * 24 * time.Hour
)

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
	source     Source
	store      Store
	log        *slog.Logger
	database   *daemon.Service
	metrics    *metrics
	complaints *complaints
	workers    *workers
	tracer     *tracing.Tracer
	swept      time.Time // when old notes were last deleted
}

// New makes a Listener that does nothing before Run. Its metrics are registered
// at once; registering two at one registry panics.
func New(o Options) *Listener {
	w := newWorkers()
	m := newMetrics(o.Registerer, w)
	return &Listener{
		source:   o.Source,
		store:    o.Store,
		log:      o.Log,
		database: daemon.NewService(o.Log, "database"),
		metrics:  m,
		workers:  w,
		tracer:   o.Tracer,
		complaints: newComplaints(o.Log, func(p Problem) {
			m.malformed.WithLabelValues(string(p)).Inc()
		}),
	}
}

// Run works until ctx ends, then applies and acknowledges the batch in hand
// (within the grace period of a daemon.Group; if the database is away, the
// broker will deliver it again), closes the source and returns nil. It returns
// an error only if the source gives up for good.
func (l *Listener) Run(ctx context.Context) error {
	daemon.HealthOf(ctx).Watch(l.database)
	deliveries := make(chan celery.Delivery)
	consuming := consume(ctx, l.source, deliveries)
	var err error
	for err == nil && ctx.Err() == nil {
		var b *batch
		if b, err = l.collect(ctx, deliveries, consuming.ended); b.messages > 0 {
			l.settle(ctx, b)
			l.sweep(daemon.InFlight(ctx))
		}
	}
	<-consuming.ended
	if closeErr := l.source.Close(); closeErr != nil {
		l.log.Debug("event queue not closed cleanly", "error", closeErr)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, consuming.err)
}

// consuming is a source at work; err is set when ended is closed.
type consuming struct {
	ended chan struct{}
	err   error
}

func consume(ctx context.Context, source Source, out chan<- celery.Delivery) *consuming {
	c := &consuming{ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.err = source.Run(ctx, out)
	}()
	return c
}

var errSourceEnded = errors.New("nothing reads the event queue any more")

// collect gathers a batch. It returns what it has when ctx or the source ends.
func (l *Listener) collect(ctx context.Context, deliveries <-chan celery.Delivery, ended <-chan struct{}) (*batch, error) {
	b := &batch{}
	var timeout <-chan time.Time // none before the first message
	for !b.full() {
		select {
		case <-ctx.Done():
			return b, nil
		case <-ended:
			return b, errSourceEnded
		case <-timeout:
			return b, nil
		case d := <-deliveries:
			if timeout == nil {
				timer := time.NewTimer(maxDelay)
				defer timer.Stop()
				timeout = timer.C
			}
			l.read(b, d)
		}
	}
	return b, nil
}

// settle applies a batch and acknowledges it, trying until the database takes
// it. It gives up, leaving the batch to be delivered again, only when ctx or the
// grace period has ended.
func (l *Listener) settle(ctx context.Context, b *batch) {
	inFlight := daemon.InFlight(ctx)
	var backoff daemon.Backoff
	for {
		err := l.apply(inFlight, b)
		if err == nil {
			break
		}
		if inFlight.Err() != nil {
			return
		}
		l.metrics.databaseErrors.Inc()
		l.database.Failed(err)
		if backoff.Wait(ctx) != nil {
			return
		}
	}
	l.database.OK()
	l.trace(b.outcomes)
	if err := l.source.AckUpTo(b.last); err != nil {
		// The connection is gone: the batch comes again, and changes nothing.
		l.log.Debug("batch not acknowledged", "error", err)
	}
}

// trace adds the ends that a batch told of to the traces of their tasks.
func (l *Listener) trace(outcomes []sql.Outcome) {
	if l.tracer == nil {
		return
	}
	for _, o := range outcomes {
		if o.End != nil {
			failed := o.End.Status != scheduler.RunEventful && o.End.Status != scheduler.RunUneventful
			l.tracer.Outcome(o.BackendID, string(o.End.Status), o.Heard, failed)
		}
	}
}

// apply writes a batch. On an error it may be called again with the same one.
func (l *Listener) apply(ctx context.Context, b *batch) error {
	started := time.Now()
	todo := &batch{rejected: slices.Clip(b.rejected)}
	if err := l.applyOrSplit(ctx, todo, b.outcomes); err != nil {
		return err
	}
	if len(todo.rejected) > 0 {
		if err := l.setAside(ctx, todo.rejected); err != nil {
			return err
		}
	}
	l.metrics.batchSize.Observe(float64(b.events))
	l.metrics.batchTime.Observe(time.Since(started).Seconds())
	return nil
}

// setAside keeps events that can't be applied. What the table refuses as well is
// only in the log.
func (l *Listener) setAside(ctx context.Context, events []sql.RejectedEvent) error {
	err := within(ctx, func(ctx context.Context) error { return l.store.RejectEvents(ctx, events) })
	var refused *sql.RefusedError
	switch {
	case errors.As(err, &refused):
		l.log.Error("rejected events not kept", "events", len(events), "error", err)
	case err != nil:
		return err
	}
	l.metrics.rejected.Add(float64(len(events)))
	return nil
}

// applyOrSplit applies outcomes. If PostgreSQL refuses them it applies each half
// by itself, and so on until the guilty ones stand alone and are set aside.
func (l *Listener) applyOrSplit(ctx context.Context, b *batch, outcomes []sql.Outcome) error {
	err := within(ctx, func(ctx context.Context) error { return l.store.ApplyOutcomes(ctx, outcomes) })
	var refused *sql.RefusedError
	switch {
	case !errors.As(err, &refused):
		return err
	case len(outcomes) == 1:
		l.complaints.note(Refused, refused.Error())
		b.reject(outcomes[0], describe(outcomes[0]), refused.SQLState, refused.Error())
		return nil
	}
	half := len(outcomes) / 2
	if err := l.applyOrSplit(ctx, b, outcomes[:half]); err != nil {
		return err
	}
	return l.applyOrSplit(ctx, b, outcomes[half:])
}

// within bounds one transaction: a server that vanishes without closing its
// connections would otherwise be waited for as long as TCP does.
func within(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

// sweep deletes old notes about runs, now and then. A failure is not worth more
// than a line: the next sweep makes up for it.
func (l *Listener) sweep(ctx context.Context) {
	now := time.Now()
	if now.Sub(l.swept) < housekeeping {
		return
	}
	l.swept = now
	err := within(ctx, func(ctx context.Context) error {
		return l.store.ForgetRuns(ctx, now.Add(-startsKept), now.Add(-durationsKept))
	})
	if err != nil {
		l.log.Warn("old notes about runs not deleted", "error", err)
	}
}
