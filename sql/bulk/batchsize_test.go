package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/postgres"
)

// A batch that times out is halved at each next try, down to a single item, which is tried again. After
// successes batches grow to the size that passes. No item is written twice.
func TestBatchSize(t *testing.T) {
	t.Parallel()
	var size bulk.BatchSize
	passes := 12 // the most items that a transaction can write in time
	var tried []int
	written := make(map[int]int)
	write := func(first, end int) error {
		tried = append(tried, end-first)
		if end-first > passes {
			return fmt.Errorf("write: %w", &pgconn.PgError{Code: "57014"})
		}
		for i := first; i < end; i++ {
			written[i]++
		}
		return nil
	}
	done, err := 0, errors.New("not begun")
	for try := 0; err != nil && try < 20; try++ {
		done, err = size.Write(done, 100, write, nil)
	}
	if done != 100 || len(written) != 100 {
		t.Errorf("%d done, %d of 100 written: %v", done, len(written), err)
	}
	for i, n := range written {
		if n != 1 {
			t.Errorf("item %d was written %d times", i, n)
		}
	}
	if diff := cmp.Diff([]int{100, 50, 25, 12}, tried[:4]); diff != "" {
		t.Errorf("first batches (-want +got):\n%s", diff)
	}

	passes, tried = 0, nil
	for range 8 {
		done, err = size.Write(0, 3, write, func(i int, _ *postgres.RefusedError) { t.Errorf("item %d was set aside", i) })
	}
	if done != 0 || !postgres.TimedOut(err) || tried[len(tried)-1] != 1 {
		t.Errorf("%d done, %v, batches %v: want single items that are tried again", done, err, tried)
	}
	passes = 1000
	for range 60 {
		if _, err := size.Write(0, 1000, write, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := size.Of(1000); n != 1000 {
		t.Errorf("batches grew to %d of 1000 only", n)
	}
}

// Refused items in a batch that times out are set aside once.
func TestBatchSizeWithRefusedItems(t *testing.T) {
	t.Parallel()
	var size bulk.BatchSize
	aside := make(map[int]int)
	done, err := 0, errors.New("not begun")
	for try := 0; err != nil && try < 20; try++ {
		done, err = size.Write(done, 40, func(first, end int) error {
			switch {
			case end-first > 10 && first >= 20:
				return context.DeadlineExceeded
			case first <= 7 && 7 < end, first <= 33 && 33 < end:
				return &postgres.RefusedError{}
			}
			return nil
		}, func(i int, _ *postgres.RefusedError) { aside[i]++ })
	}
	if diff := cmp.Diff(map[int]int{7: 1, 33: 1}, aside); diff != "" || done != 40 {
		t.Errorf("%d done, %v; set aside (-want +got):\n%s", done, err, diff)
	}
}

// TimedOut distinguishes time-outs from refused values and outages.
func TestTimedOut(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{"57014": true, "55P03": true, "57P01": false, "22008": false, "40P01": false} {
		if got := postgres.TimedOut(fmt.Errorf("x: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if !postgres.TimedOut(fmt.Errorf("x: %w", context.DeadlineExceeded)) || postgres.TimedOut(nil) || postgres.TimedOut(context.Canceled) {
		t.Error("deadlines are not told from other ends")
	}
}
