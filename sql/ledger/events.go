package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// EventReader is a listener's connection that reads a queue of events. Times are by the database's clock.
type EventReader struct {
	Session  uuid.UUID // one per connection
	Queue    string
	Since    time.Time // the connection has read the queue since then or earlier
	Complete time.Time // all events that the broker delivered to it before are written
}

// EventObservation is an observation of a queue of events without waiting messages. Its consumers had all
// unwritten events. It was made between Began and Ended, by the database's clock.
type EventObservation struct {
	Began, Ended time.Time
	Consumers    int // the number of the queue's readers
}

// DatabaseTime returns the time by the database's clock.
func (a Queries) DatabaseTime(ctx context.Context) (time.Time, error) {
	now, err := a.q.DatabaseTime(ctx)
	return now, stmt.Failed(err, "read the time")
}

// EndsKnown returns the moment, now or earlier, up to which all ends of work are recorded. Events that
// entered their queue later may be unread. Code that gives up silent work measures silence up to that
// moment instead of now. The moment is at most 7 days before now. It is now if no daemon has observed a
// queue of events yet.
func (a Queries) EndsKnown(ctx context.Context, now time.Time) (time.Time, error) {
	known, err := a.q.EndsKnown(ctx, now)
	return known, stmt.Failed(err, "read the moment up to which events are recorded")
}

// EventsUnknown, given to RaiseEventQueue, records that a daemon has observed a queue of events without
// learning how far it is read.
var EventsUnknown = time.Unix(0, 0)

// RaiseEventQueue records that all events that entered a queue before complete are written.
func (a Queries) RaiseEventQueue(ctx context.Context, queue string, complete time.Time) error {
	return stmt.Failed(a.q.RaiseEventQueue(ctx, queries.RaiseEventQueueParams{Queue: queue, Complete: complete}), "record the moment up to which events are recorded")
}

// ReportEvents records the progress of a listener, and raises the queue's moment by observations. An
// observation counts once all consumers that it counted are listeners that read the queue before it and
// have written all events delivered up to its end. ReportEvents returns the moment up to which all events
// are recorded.
func (s Store) ReportEvents(ctx context.Context, r EventReader, observations []EventObservation) (time.Time, error) {
	err := s.q.ReportEventReader(ctx, queries.ReportEventReaderParams{Session: r.Session, Queue: r.Queue, Since: r.Since, Complete: r.Complete})
	if err != nil {
		return time.Time{}, stmt.Failed(err, "record the progress of a listener")
	}
	p := queries.RaiseByObservationsParams{Queue: r.Queue}
	for _, l := range observations {
		p.Began, p.Ended, p.Consumers = append(p.Began, l.Began), append(p.Ended, l.Ended), append(p.Consumers, int64(l.Consumers))
	}
	complete, err := s.q.RaiseByObservations(ctx, p)
	return complete, stmt.Failed(err, "record the moment up to which events are recorded")
}

// ForgetEventReaders deletes listeners without a report for a day.
func (a Queries) ForgetEventReaders(ctx context.Context, now time.Time) error {
	return stmt.Failed(a.q.ForgetEventReaders(ctx, now.Add(-postgres.Day)), "forget listeners that have ended")
}
