package listener

import (
	"context"
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// stuckAfter is how long a test waits for what a batch that is repeated whole never does.
const stuckAfter = 60 * time.Second

// A batch of events that statement_timeout ends is applied in parts; the time-out is
// nobody's fault, so nothing is set aside, and batches grow again afterwards.
func TestBatchThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	pg := newDatabase(t, testenv.Database(t))
	pg.addTasks(t, 200, "run")
	pg.exec(t, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.01); return new; end $$`)
	pg.exec(t, `create trigger slow before update on task_run for each row execute function slow()`)
	// For connections from here on.
	pg.exec(t, `do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	var bodies [][]byte
	for i := range 200 {
		bodies = append(bodies, message(t, resultEvent(fmt.Sprintf("run-%d", i), map[string]any{"status": "eventful"})))
	}
	source := &script{bodies: bodies}
	l := newTestListener(t, source, openStore(t, pg.dsn))
	ctx, cancel := context.WithTimeout(t.Context(), stuckAfter)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for deadline := time.After(stuckAfter); source.acks.Load() == 0; {
		select {
		case <-deadline:
			t.Fatal("the batch was not applied")
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := pg.count(t, "run-", "eventful"); n != 200 {
		t.Errorf("%d of 200 runs have ended", n)
	}
	if r := pg.rejections(t); len(r) > 0 {
		t.Errorf("set aside: %v", r)
	}
}
