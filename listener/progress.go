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
	// maxObservations bounds each list of observations that wait for other listeners. empty keeps the newest, pending
	// the oldest.
	maxObservations = 120
)

// Progress reports until when workers' events are written, so that no run is given up while its events are unread.
//
// An observation finds that no message waits in the queue, and how many consumers there are. These consumers have
// all events that came before it and are not written. The observation counts as soon as that many listeners report
// two things: they read the queue before it, and they have written all messages that were sent to them by its end. A
// consumer that is no such listener (a stopped process, the Python scheduler's listener) makes the numbers differ,
// so that no observation counts. A listener whose connection ends returns its unwritten messages to the queue, where
// they wait again. A listener that has cancelled its consumer, to stop, makes no observations: it is not among the
// consumers.
type Progress struct {
	ProgressOptions

	session uuid.UUID     // id of the connection of the last observation
	since   time.Time     // the connection has read the queue since then, or earlier
	pending []observation // over that connection, with deliveries that are not reported as written
	last    *observation  // the last of all observations
	empty   []ledger.EventObservation
}

// observation is a check of the queue, and when it began, by the database's clock.
type observation struct {
	celery.QueueCheck
	began time.Time
}

// ProgressOptions configure a Progress.
type ProgressOptions struct {
	Consumer interface {
		CheckQueue(ctx context.Context) (celery.QueueCheck, error)
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

// RunOnce observes the queue and reports the written events. All times are the database's.
func (p *Progress) RunOnce(ctx context.Context) error {
	began, err := p.Store.DatabaseTime(ctx)
	if err != nil {
		return err
	}
	if p.last != nil && p.last.Ready == 0 {
		if len(p.empty) == maxObservations { // drops the oldest: a later one covers more
			p.empty = slices.Delete(p.empty, 0, 1)
		}
		p.empty = append(p.empty, ledger.EventObservation{Began: p.last.began, Ended: began, Consumers: p.last.Consumers})
	}
	before := p.last
	p.last = nil
	found, err := p.Consumer.CheckQueue(ctx)
	if errors.Is(err, celery.ErrNotReading) {
		return nil // the consumer logs it
	}
	if err != nil {
		return err
	}
	p.last = &observation{found, began}
	if before == nil || !found.SameConnection(before.QueueCheck) {
		p.pending, p.session = nil, uuid.New()
		p.since, err = p.Store.DatabaseTime(ctx)
		return err
	}
	if len(p.pending) < maxObservations {
		p.pending = append(p.pending, *p.last)
	}
	return p.report(ctx)
}

// report reports the written events.
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
