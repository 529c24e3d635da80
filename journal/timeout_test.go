package journal

import (
	"context"
	"fmt"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A batch that statement_timeout ends is written in parts, each visit once. Each try continues where the
// last one ended.
func TestBatchThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.01); return new; end $$`)
	execute(t, dsn, `create trigger slow before insert or update on origin_visit_stats for each row execute function slow()`)
	execute(t, dsn, `do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	store := testenv.Open(t, dsn)
	c, _, err := New(Options{Brokers: []string{"unused:1"}, GroupID: "x", Store: store, Rules: noFudge, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	b := &batch{}
	for n := range 400 {
		b.visits = append(b.visits, Visit{OriginKey: model.OriginKey{URL: fmt.Sprint("https://example.org/", n), VisitType: "git"}, Date: at(0), Status: model.VisitFailed})
		b.from = append(b.from, place{})
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	applied, err := c.apply(ctx, &member{rebalanceWaits: make(chan struct{})}, b)
	if !applied || err != nil || b.applied.Total() != 400 || len(b.refused) > 0 {
		t.Errorf("applied %v (%d of 400 visits, %d set aside): %v", applied, b.applied.Total(), len(b.refused), err)
	}
	if once := table(t, dsn, "select count(*)::text from origin_visit_stats where successive_visits = 1"); once[0] != "400" {
		t.Errorf("%s of 400 visits are counted once", once[0])
	}
}
