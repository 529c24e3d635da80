package db

import (
	"context"
	"time"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// How many rejected events and rejected journal records are kept.
const (
	rejectedEventsKept = 5000
	maxRejectedRecords = 10_000
)

// RejectedEvent is an event that is set aside.
type RejectedEvent struct {
	BackendID string // empty for a whole message
	Received  time.Time
	Event     string // for an operator to read
	SQLState  string // of PostgreSQL's refusal, or empty
	Reason    string
	Always    bool // store it even without a known run
}

// RejectEvents stores events that cannot be applied, for operators to read. The table holds the newest
// 5,000. RejectEvents ignores events of unknown runs, unless Always is set. It returns a
// *postgres.RefusedError if PostgreSQL refuses an event.
func (s RejectedStore) RejectEvents(ctx context.Context, events []RejectedEvent) error {
	if len(events) == 0 {
		return nil
	}
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		return stmt.InOrder(ctx, stmt.Arrays(events, tx.q.RejectEvents),
			func(ctx context.Context) error { return tx.q.ForgetRejectedEvents(ctx, rejectedEventsKept) })
	})
	return postgres.AsRefused(stmt.Failed(err, "keep %d rejected events", len(events)))
}

// RejectedRecord is a journal record that is set aside.
type RejectedRecord struct {
	Topic     string
	Partition int32
	Offset    int64
	Kind      string // one of a few words
	Detail    string // an explanation in words
}

// RejectRecords stores the places of journal records that cannot be applied. The table holds the newest
// 10,000. A record that is stored already doesn't change. RejectRecords returns a *postgres.RefusedError if
// PostgreSQL refuses a record.
func (s RejectedStore) RejectRecords(ctx context.Context, records []RejectedRecord) error {
	if len(records) == 0 {
		return nil
	}
	records = records[max(0, len(records)-maxRejectedRecords):]
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		return stmt.InOrder(ctx, stmt.Arrays(records, tx.q.InsertRejectedRecords),
			func(ctx context.Context) error { return tx.q.TrimRejectedRecords(ctx, maxRejectedRecords) })
	})
	return postgres.AsRefused(stmt.Failed(err, "set %d journal records aside", len(records)))
}
