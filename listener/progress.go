package listener

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/ledger"
)

const (
	progressPeriod = 5 * time.Second
	// maxObservations bounds the looks that wait for other listeners, to those of the last 10 minutes.
	maxObservations = 120
)

// Progress reports up to when workers' events are written, so that nothing is given up whose events
// are unread.
//
// A look finds that no message waits in the queue, and how many consumers there are: these have all
// events that came before it and are not written. The look counts once as many listeners report that
// they read the queue before it and have written all that was sent to them by its end. A consumer that is no
// such listener (a stopped process, the Python scheduler's listener) makes the numbers differ, so that no
// look counts. A listener whose connection ends gives back what it has not written, which waits in the
// queue again. One that has cancelled its consumer, to stop, makes no looks: it is not among the consumers any more.
type Progress struct {
	ProgressOptions

	session uuid.UUID // of the connection of the last look
	since   time.Time // that connection has read the queue since then, or earlier
	pending []look    // over that connection, whose deliveries are not reported as written
	last    *look     // the last one of all
	empty   []ledger.EventObservation
}

// look is a look, and when it began by the database's clock.
type look struct {
	celery.Look
	began time.Time
}

// ProgressOptions configure a Progress.
type ProgressOptions struct {
	Consumer interface {
		Look(ctx context.Context) (celery.Look, error)
	}
	Store interface {
		DatabaseTime(ctx context.Context) (time.Time, error)
		ReportEvents(ctx context.Context, r ledger.EventReader, looks []ledger.EventObservation) (time.Time, error)
	}
	Log *slog.Logger
}

// Run reports until ctx ends.
func (p *Progress) Run(ctx context.Context) error {
	return service.Every(ctx, progressPeriod, p.Log, "reporting progress", p.RunOnce)
}

// RunOnce looks at the queue and reports what is written. All times are asked of the database.
func (p *Progress) RunOnce(ctx context.Context) error {
	began, err := p.Store.DatabaseTime(ctx)
	if err != nil {
		return err
	}
	if p.last != nil && p.last.Ready == 0 {
		if len(p.empty) == maxObservations { // the oldest one, as a later one says more once it counts
			p.empty = slices.Delete(p.empty, 0, 1)
		}
		p.empty = append(p.empty, ledger.EventObservation{Began: p.last.began, Ended: began, Consumers: p.last.Consumers})
	}
	before := p.last
	p.last = nil
	found, err := p.Consumer.Look(ctx)
	if errors.Is(err, celery.ErrNotReading) {
		return nil // which the consumer says
	}
	if err != nil {
		return err
	}
	p.last = &look{found, began}
	if before == nil || !found.SameConnection(before.Look) {
		p.pending, p.session = nil, uuid.New()
		p.since, err = p.Store.DatabaseTime(ctx)
		return err
	}
	if len(p.pending) < maxObservations {
		p.pending = append(p.pending, *p.last)
	}
	return p.report(ctx)
}

// report reports what is written.
func (p *Progress) report(ctx context.Context) error {
	written := 0
	for written < len(p.pending) && p.pending[written].Acknowledged() {
		written++
	}
	if written == 0 {
		return nil
	}
	known, err := p.Store.ReportEvents(ctx, ledger.EventReader{
		Session: p.session, Queue: celery.EventsQueue, Since: p.since, Complete: p.pending[written-1].began,
	}, p.empty)
	if err != nil {
		return err
	}
	p.pending = slices.Delete(p.pending, 0, written)
	p.empty = slices.DeleteFunc(p.empty, func(l ledger.EventObservation) bool { return !l.Began.After(known) })
	return nil
}
