package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
)

// A moment up to which events are known that was recorded while the database's clock was ahead doesn't outlast that: otherwise
// all events would count as known, unread ones too, until that moment.
func TestEventsKnownAfterTheDatabasesClockIsSetBack(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	now, err := store.DatabaseTime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := func(step string, want time.Time) {
		t.Helper()
		if got, err := store.EndsKnown(t.Context(), now); err != nil || !got.Equal(want) {
			t.Errorf("%s: known up to %s, want %s: %v", step, got, want, err)
		}
	}
	raise := func(at time.Time) {
		t.Helper()
		if err := store.RaiseEventQueue(t.Context(), "q", at); err != nil {
			t.Fatal(err)
		}
	}
	raise(now.Add(24 * time.Hour))
	raise(now.Add(-time.Hour))
	known("a look at the queue", now.Add(-time.Hour))
	raise(now.Add(-2 * time.Hour))
	known("an earlier look", now.Add(-time.Hour))

	// A listener that goes on to read over the same connection.
	reader := ledger.EventReader{Session: uuid.New(), Queue: "q"}
	report := func(since, complete, began, ended time.Time) {
		t.Helper()
		reader.Since, reader.Complete = since, complete
		if _, err := store.ReportEvents(t.Context(), reader, []ledger.EventObservation{{Began: began, Ended: ended, Consumers: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	ahead := now.Add(24 * time.Hour)
	testenv.Exec(t, store.Pool(), "update scheduler_go.event_queues set complete = $1", ahead.Add(-time.Minute))
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.event_readers (session, queue, since, complete) values ($1, 'q', $2, $3)", reader.Session, ahead.Add(-time.Hour), ahead)
	report(ahead.Add(-time.Hour), now.Add(-30*time.Minute), now.Add(-20*time.Minute), now.Add(-10*time.Minute))
	if got, err := store.EndsKnown(t.Context(), now); err != nil || got.After(now.Add(-20*time.Minute)) {
		t.Errorf("a listener has written the events up to half an hour ago, and all up to %s ago count as known: %v", now.Sub(got), err)
	}
	report(ahead.Add(-time.Hour), now.Add(-5*time.Minute), now.Add(-20*time.Minute), now.Add(-10*time.Minute))
	known("the listener has written them", now.Add(-20*time.Minute))
}
