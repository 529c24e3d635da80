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

// GiveUpAfter is the longest delay allowed for the event of a start or an end.
const GiveUpAfter = 10 * time.Minute

const (
	eventsPeriod = 10 * time.Second

	// reportedWithin is the largest age of the moment up to which events are known while listeners report it.
	reportedWithin = time.Minute
)

// Events returns the job that records up to which moment events are known, if no listener reports it
// (listener.Progress). The Python scheduler's listener reports none. All events are known as of a moment at which the
// management API found the queue empty, without unacknowledged messages. The same holds if the queue doesn't exist,
// as the broker then keeps no events.
//
// A Keeper runs it before the jobs that use that moment: GiveUpWork and LostRuns.
func Events(store *db.Store, broker dispatch.Observer) Job {
	return Job{Name: "events", Period: eventsPeriod, Do: func(ctx context.Context) (string, error) {
		return observeEvents(ctx, store, broker)
	}}
}

func observeEvents(ctx context.Context, store *db.Store, broker dispatch.Observer) (string, error) {
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
	return "queue of events observed", nil
}
