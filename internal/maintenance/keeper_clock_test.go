package maintenance

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// A job that ran while the database's clock was ahead runs again once the clock is set back.
func TestJobsRunAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	n := 0
	k := &Keeper{Store: store, Jobs: []Job{{Name: "sweep", Period: time.Minute, Do: func(context.Context) (string, error) {
		n++
		return "", nil
	}}}}
	if err := k.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, ahead := range []string{"update scheduler_go.keeper set began = clock_timestamp() + interval '1 year'",
		"update scheduler_go.keeper set began = clock_timestamp() + interval '1 year', until = clock_timestamp() + interval '1 year 1 minute'"} {
		testenv.Exec(t, store.Pool(), ahead)
		if err := k.RunOnce(t.Context()); err != nil || n != i+2 {
			t.Errorf("the job ran %d times, want %d: %v", n, i+2, err)
		}
		if err := k.RunOnce(t.Context()); err != nil || n != i+2 {
			t.Errorf("the job ran %d times at once, want %d: %v", n, i+2, err)
		}
	}
}
