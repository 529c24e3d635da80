package listener

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// A batch that is tried again, as the database went away between its outcomes and
// the events to set aside, sets each of these aside once.
func TestBatchTriedAgainSetsAsideOnce(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	pg.addTasks(t, 2, "run")
	pg.exec(t, `update task set type = 'broken' where id = (select task from task_run where backend_id = 'run-1')`)
	store := &absent{Store: openStore(t, pg.dsn), away: 2}
	l := newTestListener(t, nil, store)
	b := &batch{}
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

// An event that can't be understood doesn't take the others of its message with it,
// be they before or after it.
func TestBadEventLeavesTheOthersOfItsMessage(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &nothing{})
	b := &batch{}
	l.read(b, delivery([]byte(`[{"type": "task-started", "uuid": "a"}, 1, {"uuid": "b"}, {"type": "task-started", "uuid": "c"}]`)))
	var started []string
	for _, o := range b.outcomes {
		started = append(started, o.BackendID)
	}
	if diff := cmp.Diff([]string{"a", "c"}, started); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
