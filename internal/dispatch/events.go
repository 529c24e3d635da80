package dispatch

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

const (
	eventsPeriod = 10 * time.Second

	// reportedWithin is how old the moment up to which events are known may be while listeners
	// report it.
	reportedWithin = time.Minute
)

// lookAtEvents records up to when events are known, unless listeners report it
// (listener.Progress): the Python scheduler's listener doesn't, nor do those over an RPC server. All
// events are known as of a moment at which the management API found the queue empty, without
// unacknowledged messages. Without a queue, too: nothing is kept for a listener.
func (m *Maintenance) lookAtEvents(ctx context.Context) (string, error) {
	began, err := m.Store.DatabaseTime(ctx)
	if err != nil {
		return "", err
	}
	known, err := m.Store.EndsKnown(ctx, began)
	if behind := began.Sub(known); err != nil || behind > 0 && behind < reportedWithin {
		return "", err
	}
	all, err := observe(ctx, m.Store, m.Lengths, true, celery.EventsQueue)
	if err != nil {
		return "", err
	}
	observed := all[celery.EventsQueue]
	length, lengthErr := observed.Length(0)
	complete := db.EventsUnknown
	switch {
	case lengthErr != nil:
	case !length.Exists:
		complete = observed.Asked
	case !length.Unknown && length.Messages() == 0:
		complete = observed.Since()
	}
	if err := m.Store.RaiseEventQueue(ctx, celery.EventsQueue, complete); err != nil || lengthErr != nil {
		return "", errors.Join(lengthErr, err)
	}
	return "looked at the queue of events", nil
}
