package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// The time limits and the root id of a claimed message reach the worker in Celery's form. A row without them
// yields Celery's values for none.
func TestTimeLimitsAndRootTravel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows, ids := messages("q", 4)
	root := uuid.New()
	rows[1].Lane.HardLimit, rows[1].Lane.SoftLimit = 90*time.Second, time.Minute
	rows[2].Lane.HardLimit = 1500 * time.Millisecond
	rows[3].Lane.SoftLimit = 300 * time.Millisecond
	for i := range rows {
		rows[i].Lane.Set = "load-git"
	}
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.AddWork(ctx, rows)
	}); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, b.store.Pool(), "update scheduler_go.work set root_id = $1 where task_id = $2", root, ids[1])
	if done, err := b.deliverer(t, b.publisher).Drain(t.Context()); err != nil || done.Confirmed != len(rows) {
		t.Fatalf("%+v, %v", done, err)
	}

	type headers struct{ ID, RootID, TimeLimit any }
	var got []headers
	ch := b.channel(t)
	for range rows {
		d, ok, err := ch.Get("q", true)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		got = append(got, headers{d.Headers["id"], d.Headers["root_id"], d.Headers["timelimit"]})
	}
	want := []headers{
		{ids[0], ids[0], []any{nil, nil}},
		{ids[1], root.String(), []any{int32(90), int32(60)}},
		{ids[2], ids[2], []any{1.5, nil}},
		{ids[3], ids[3], []any{nil, 0.3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// The root id of work that timed out more than once is the id of its first try.
func TestRootIsTheFirstTry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := uuid.New()
	testenv.Exec(t, b.store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs,
			lane_set, lane, lane_name, lanes_left, soft_limit, memory, lister, first, behind)
		values ($1, 'sent', 'q', 'q', now(), 't', '[]', '{}', 'load-git', 0, 'express', 5, 60, 1, '', true, 0)`, first)
	id := first
	for range 2 {
		timedOut := settle.Outcome{BackendID: id.String(), Received: time.Now(), End: &settle.End{Status: model.RunFailed, TimedOut: true}}
		if err := (settle.Store{Store: b.store}).ApplyOutcomes(t.Context(), []settle.Outcome{timedOut}); err != nil {
			t.Fatal(err)
		}
		var root uuid.UUID
		if err := b.store.Pool().QueryRow(t.Context(), "update scheduler_go.work set state = 'sent' where state = 'backlog' returning task_id, root_id").Scan(&id, &root); err != nil {
			t.Fatal(err)
		}
		if root != first || id == first {
			t.Errorf("root %s of %s, want %s", root, id, first)
		}
	}
}
