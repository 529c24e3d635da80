package listener

import (
	"fmt"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A batch that statement_timeout ends is applied in parts. Nothing is set aside, and later batches grow again.
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
	stop := testenv.Run(t, l.Run)
	testenv.Becomes(t, "runs that have ended", len(bodies), func() int { return pg.count(t, "run-", "eventful") })
	stop()
	if r := pg.rejections(t); len(r) > 0 {
		t.Errorf("set aside: %v", r)
	}
}
