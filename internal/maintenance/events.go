package maintenance

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// GiveUpAfter is how long the event of a start or an end may be delayed.
const GiveUpAfter = 10 * time.Minute

const (
	eventsPeriod = 10 * time.Second

	// reportedWithin is how old the moment up to which events are known may be while listeners
	// report it.
	reportedWithin = time.Minute
)

// Events returns the job that records up to when events are known, unless listeners report it
// (listener.Progress): the Python scheduler's listener doesn't. All
// events are known as of a moment at which the management API found the queue empty, without
// unacknowledged messages. Without a queue, too: nothing is kept for a listener.
//
// A Keeper must have it before the jobs that judge by that moment: GiveUpWork and LostRuns.
func Events(store *db.Store, broker dispatch.Observer) Job {
	return Job{Name: "events", Period: eventsPeriod, Do: func(ctx context.Context) (string, error) {
		return lookAtEvents(ctx, store, broker)
	}}
}

func lookAtEvents(ctx context.Context, store *db.Store, broker dispatch.Observer) (string, error) {
	began, err := store.DatabaseTime(ctx)
	if err != nil {
		return "", err
	}
	known, err := store.EndsKnown(ctx, began)
	if behind := began.Sub(known); err != nil || behind > 0 && behind < reportedWithin {
		return "", err
	}
	observed, err := dispatch.ObserveQueue(ctx, store, broker, celery.EventsQueue)
	if err != nil {
		return "", err
	}
	length, lengthErr := observed.Length(0)
	complete := ledger.EventsUnknown
	switch {
	case lengthErr != nil:
	case !length.Exists:
		complete = observed.Asked
	case !length.Unknown && length.Messages() == 0:
		complete = observed.Since()
	}
	if err := store.RaiseEventQueue(ctx, celery.EventsQueue, complete); err != nil || lengthErr != nil {
		return "", errors.Join(lengthErr, err)
	}
	return "looked at the queue of events", nil
}
