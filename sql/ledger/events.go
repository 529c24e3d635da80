package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// EventReader is a listener's connection that reads a queue of events. Moments are by the
// database's clock.
type EventReader struct {
	Session  uuid.UUID // of the connection: a new connection is another reader
	Queue    string
	Since    time.Time // it has read the queue since then, or earlier
	Complete time.Time // all that the broker sent to it before is written
}

// EventObservation is a look at a queue of events in which no message waited: its consumers had all that
// were not written. It was made between two moments, by the database's clock.
type EventObservation struct {
	Began, Ended time.Time
	Consumers    int // how many read the queue
}

// DatabaseTime asks for the time by the database's clock.
func (a Queries) DatabaseTime(ctx context.Context) (time.Time, error) {
	now, err := a.q.DatabaseTime(ctx)
	return now, stmt.Failed(err, "ask for the time")
}

// EndsKnown returns the moment, now or earlier, up to which the ends of work are known: events that
// came into their queue later may be unread. What nothing is heard of is judged by that moment
// instead of by now. It is at most 7 days before now, and now if no daemon has looked at a queue of
// events yet.
func (a Queries) EndsKnown(ctx context.Context, now time.Time) (time.Time, error) {
	known, err := a.q.EndsKnown(ctx, now)
	return known, stmt.Failed(err, "read up to when the events of workers are known")
}

// EventsUnknown, given to RaiseEventQueue, records that a daemon has looked at a queue of events and
// that nothing is known of it.
var EventsUnknown = time.Unix(0, 0)

// RaiseEventQueue records that all events that came into a queue before a moment are written.
func (a Queries) RaiseEventQueue(ctx context.Context, queue string, complete time.Time) error {
	return stmt.Failed(a.q.RaiseEventQueue(ctx, queries.RaiseEventQueueParams{Queue: queue, Complete: complete}), "record up to when the events of workers are known")
}

// ReportEvents records what a listener has written, and up to when events are known by some looks
// at the queue. A look counts once all consumers that there were are listeners which had read the queue
// before it and have written what was sent to them by its end. It returns the moment up to which
// events are known.
func (s Store) ReportEvents(ctx context.Context, r EventReader, looks []EventObservation) (time.Time, error) {
	err := s.q.ReportEventReader(ctx, queries.ReportEventReaderParams{Session: r.Session, Queue: r.Queue, Since: r.Since, Complete: r.Complete})
	if err != nil {
		return time.Time{}, stmt.Failed(err, "record what a listener has written")
	}
	p := queries.RaiseByObservationsParams{Queue: r.Queue}
	for _, l := range looks {
		p.Began, p.Ended, p.Consumers = append(p.Began, l.Began), append(p.Ended, l.Ended), append(p.Consumers, int64(l.Consumers))
	}
	complete, err := s.q.RaiseByObservations(ctx, p)
	return complete, stmt.Failed(err, "record up to when the events of workers are known")
}

// ForgetEventReaders deletes listeners that have reported nothing for a day.
func (a Queries) ForgetEventReaders(ctx context.Context, now time.Time) error {
	return stmt.Failed(a.q.ForgetEventReaders(ctx, now.Add(-postgres.Day)), "forget listeners that have ended")
}
