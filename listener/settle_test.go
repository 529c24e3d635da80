package listener

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

// absent is a store that is away for the first calls that set events aside.
type absent struct {
	Store
	away int
	kept []string // what was asked to be kept, by its run
}

func (s *absent) RejectEvents(ctx context.Context, events []db.RejectedEvent) error {
	if s.away--; s.away >= 0 {
		return errors.New("away")
	}
	for _, e := range events {
		s.kept = append(s.kept, e.BackendID)
	}
	return s.Store.RejectEvents(ctx, events)
}

// If the database fails between the outcomes and the rejected events, the retried batch sets each event aside
// once.
func TestBatchTriedAgainSetsAsideOnce(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	pg.addTasks(t, 2, "run")
	pg.exec(t, `update task set type = 'broken' where id = (select task from task_run where backend_id = 'run-1')`)
	store := &absent{Store: openStore(t, pg.dsn), away: 2}
	l := newTestListener(t, nil, store)
	b := newBatch(firstTurn())
	l.read(b, delivery(message(t,
		taskEvent("task-result", "run-0", 1),                       // without a result: nobody understands it
		resultEvent("run-1", map[string]any{"status": "eventful"}), // PostgreSQL refuses it
	)))
	for range 2 {
		if l.apply(t.Context(), b) == nil {
			t.Fatal("applied while the database was away")
		}
	}
	if err := l.apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run-0", "run-1"}, store.kept); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// narrow is a store that has time for one event to set aside, and is away once.
type narrow struct {
	nothing
	away string // when it is to keep this run's
	kept []string
}

func (n *narrow) RejectEvents(_ context.Context, events []db.RejectedEvent) error {
	switch {
	case len(events) > 1:
		return context.DeadlineExceeded
	case events[0].BackendID == n.away:
		n.away = ""
		return errors.New("away")
	}
	n.kept = append(n.kept, events[0].BackendID)
	return nil
}

// Events that are set aside in several transactions, one of which fails, are set aside once each.
func TestSettingAsideGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	store := &narrow{away: "b"}
	l := newTestListener(t, nil, store)
	b := newBatch(firstTurn())
	l.read(b, delivery(message(t, taskEvent("task-result", "a", 1), taskEvent("task-result", "b", 1), taskEvent("task-result", "c", 1))))
	tries := 1
	for ; l.apply(t.Context(), b) != nil && tries < 10; tries++ {
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, store.kept); diff != "" {
		t.Errorf("after %d tries (-want +got):\n%s", tries, diff)
	}
}

// A malformed event doesn't prevent the events before and after it in its message.
func TestBadEventLeavesTheOthersOfItsMessage(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &nothing{})
	b := newBatch(firstTurn())
	l.read(b, delivery([]byte(`[{"type": "task-started", "uuid": "a"}, 1, {"uuid": "b"}, {"type": "task-started", "uuid": "c"}]`)))
	var started []string
	for _, o := range b.outcomes {
		started = append(started, o.BackendID)
	}
	if diff := cmp.Diff([]string{"a", "c"}, started); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A message that is too large to be read is acknowledged, also if it is alone.
func TestOversizedMessageIsAcknowledged(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &nothing{})
	b := newBatch(firstTurn())
	l.read(b, celery.Delivery{Body: make([]byte, 2*excerptLength), Oversized: true})
	if !b.last.Oversized || b.messages != 1 || len(b.outcomes) != 0 {
		t.Errorf("%+v", b)
	}
}
