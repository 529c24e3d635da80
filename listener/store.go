package listener

import (
	"context"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/sql"
)

// Store is what the listener needs of the database.
type Store interface {
	// ApplyOutcomes writes all outcomes or none, and may be called again with
	// the same ones. A *sql.RefusedError says that one of them is at fault, any
	// other error that the database is.
	ApplyOutcomes(ctx context.Context, outcomes []sql.Outcome) error
	// RejectEvents keeps those events that are about runs of ours.
	RejectEvents(ctx context.Context, events []sql.RejectedEvent) error
	// ForgetRuns deletes what was noted about runs long ago.
	ForgetRuns(ctx context.Context, startsBefore, durationsBefore time.Time) error
}

// Source is where messages come from: a *celery.Consumer.
type Source interface {
	// Run sends what is in the queue to out, in order, until ctx ends. What it
	// sent can still be acknowledged then, until Close.
	Run(ctx context.Context, out chan<- celery.Delivery) error
	// AckUpTo acknowledges a message and all before it.
	AckUpTo(d celery.Delivery) error
	Close() error
}
