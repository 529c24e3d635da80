package listener

import (
	"fmt"
	"strings"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/settle"
	"swh-scheduler/sql/db"
)

// The bounds of a batch.
const (
	maxEvents   = 2000
	maxBytes    = 8 << 20
	maxMessages = 500
	maxDelay    = 100 * time.Millisecond
)

// batch holds the outcomes of a run of messages, in their order.
type batch struct {
	turn     *turn
	outcomes []settle.Outcome
	rejected []db.RejectedEvent
	events   int
	bytes    int
	messages int
	last     *celery.Delivery // the last message that was read whole: acknowledging it acknowledges all before; may be nil

	applied int // outcomes that are written, or among rejected
	kept    int // rejected events that are written
}

func newBatch(before *turn) *batch { return &batch{turn: newTurn(before)} }

func (b *batch) full() bool {
	return b.events >= maxEvents || b.bytes >= maxBytes || b.messages >= maxMessages
}

func (b *batch) empty() bool { return b.events == 0 && b.last == nil }

// reject sets an outcome aside.
func (b *batch) reject(o settle.Outcome, event, sqlState, reason string) {
	b.rejected = append(b.rejected, db.RejectedEvent{
		BackendID: o.BackendID, Received: o.Received, Event: storable(event), SQLState: sqlState, Reason: storable(reason),
	})
}

// setAside stores a message or an event that can't be read or applied, also of a task that is not in the database.
func (b *batch) setAside(m *reading, id string, text []byte, reason string) {
	received := m.received
	if received.IsZero() {
		received = time.Now()
	}
	b.rejected = append(b.rejected, db.RejectedEvent{
		BackendID: storable(id), Received: received, Event: storable(string(text[:min(len(text), rejectedLength+1)])), Reason: storable(reason), Always: true,
	})
}

// storable returns the beginning of a text, without the characters that PostgreSQL can't store.
func storable(text string) string {
	return excerpt(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd"), rejectedLength)
}

// rejectedLength bounds each text of an event that is set aside, in bytes.
const rejectedLength = 4000

// describe returns an outcome in words, for an operator.
func describe(o settle.Outcome) string {
	switch {
	case o.Start != nil && o.Start.Worker != nil:
		return "started on " + *o.Start.Worker
	case o.Start != nil:
		return "started"
	case o.End != nil && o.End.Error != nil:
		return fmt.Sprintf("ended as %s: %s", o.End.Status, *o.End.Error)
	case o.End != nil:
		return "ended as " + string(o.End.Status)
	}
	return fmt.Sprintf("took %s", o.Runtime)
}
