package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

func openStore(t *testing.T) *db.Store {
	t.Helper()
	return testenv.Open(t, testenv.Database(t))
}

// Of several processes one runs a job, once in its period. A job that fails doesn't stop the others, and its row has
// the error.
func TestOneProcessDoesAJobOncePerPeriod(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	var atOnce, most, done atomic.Int32
	k := &Keeper{Store: store, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Jobs: []Job{
		{Name: "broken", Period: time.Hour, Do: func(context.Context) (string, error) { return "", errors.New("out of luck") }},
		{Name: "sweep", Period: time.Hour, Do: func(context.Context) (string, error) {
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			done.Add(1)
			return "2 swept", nil
		}},
	}}
	var processes errgroup.Group
	for range 8 {
		processes.Go(func() error {
			for range 3 {
				if err := k.RunOnce(t.Context()); err != nil && err.Error() != "broken: out of luck" {
					return err
				}
			}
			return nil
		})
	}
	if err := processes.Wait(); err != nil {
		t.Fatal(err)
	}
	if done.Load() != 1 || most.Load() != 1 {
		t.Errorf("done %d times, by %d at once", done.Load(), most.Load())
	}
	jobs, err := store.MaintenanceJobs(t.Context())
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if b, s := jobs[0], jobs[1]; !b.Failed || b.Result != "out of luck" || s.Failed || s.Result != "2 swept" || time.Since(s.Began) > time.Hour {
		t.Errorf("%+v", jobs)
	}
}

// A job that failed is an error of every process's rounds until it succeeds. So an alert sees jobs that always fail,
// also those with a long period.
func TestFailedJobIsAnErrorUntilItSucceeds(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	var fail error
	jobs := []Job{{Name: "sweep", Period: time.Hour, Do: func(context.Context) (string, error) { return "", fail }}}
	one, other := &Keeper{Store: store, Jobs: jobs}, &Keeper{Store: store, Jobs: jobs}
	for i, step := range []struct {
		keeper *Keeper
		fail   error
		later  bool // a minute after the step before
		want   string
	}{
		{one, errors.New("out of luck"), false, "sweep: out of luck"},
		{one, nil, false, "sweep: out of luck"},
		{other, nil, false, "sweep: out of luck"},
		{other, errors.New("still none"), true, "sweep: still none"},
		{one, nil, true, ""},
		{other, nil, false, ""},
	} {
		if step.later {
			testenv.Exec(t, store.Pool(), "update scheduler_go.keeper set began = clock_timestamp() - interval '61 seconds'")
		}
		fail = step.fail
		got := ""
		if err := step.keeper.RunOnce(t.Context()); err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("step %d: error %q, want %q", i, got, step.want)
		}
	}
}

// A process leaves jobs that its configuration lacks to other processes.
func TestJobThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	n, store := 0, openStore(t)
	for want, unconfigured := range []bool{true, false} {
		k := &Keeper{Store: store, Jobs: []Job{{Name: "sweep", Period: time.Hour, Unconfigured: unconfigured, Do: func(context.Context) (string, error) {
			n++
			return "", nil
		}}}}
		if err := k.RunOnce(t.Context()); err != nil || n != want {
			t.Errorf("done %d times, %v, want %d", n, err, want)
		}
	}
}

// A job is due again after its period, and a minute after a failure.
func TestJobsAreDueAgain(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	n := 0
	var fail error
	k := &Keeper{Store: store, Jobs: []Job{{Name: "sweep", Period: time.Hour, Do: func(context.Context) (string, error) {
		n++
		return "", fail
	}}}}
	age := func(by string) {
		testenv.Exec(t, store.Pool(), "update scheduler_go.keeper set began = clock_timestamp() - $1::interval", by)
	}
	for i, step := range []struct {
		age  string
		fail error
		want int
	}{{"", nil, 1}, {"59 minutes", nil, 1}, {"61 minutes", errors.New("x"), 2}, {"50 seconds", nil, 2}, {"61 seconds", nil, 3}, {"61 seconds", nil, 3}} {
		if step.age != "" {
			age(step.age)
		}
		fail = step.fail
		_ = k.RunOnce(t.Context())
		if n != step.want {
			t.Errorf("step %d: done %d times, want %d", i, n, step.want)
		}
	}
}

// A round without due jobs is one statement for any number of jobs, as each daemon runs one every ten seconds.
func TestRoundIsOneStatement(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	k := &Keeper{Store: store}
	for _, name := range []string{"one", "two", "three"} {
		k.Jobs = append(k.Jobs, Job{Name: name, Period: time.Hour, Do: func(context.Context) (string, error) { return "", nil }})
	}
	if err := k.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := store.Pool().Stat().AcquireCount() // one for each statement outside of transactions
	if err := k.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := store.Pool().Stat().AcquireCount() - before; n != 1 {
		t.Errorf("%d statements, want 1", n)
	}
}

// A job that exceeds its timeout is cancelled and returns an error.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	k := &Keeper{Store: store, Jobs: []Job{{Name: "slow", Period: time.Hour, Timeout: time.Millisecond, Do: func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}}}}
	if err := k.RunOnce(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// When the timeout of a dead process's job is over, another process runs the job. A result that the first process
// writes later is dropped.
func TestJobOfADeadProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	n := 0
	other := &Keeper{Store: store, Jobs: []Job{{Name: "sweep", Period: time.Millisecond, Do: func(context.Context) (string, error) {
		n++
		return "by another", nil
	}}}}
	runOther := func(want int) {
		t.Helper()
		if err := other.RunOnce(t.Context()); err != nil || n != want {
			t.Errorf("done %d times, want %d; %v", n, want, err)
		}
	}
	stalled := &Keeper{Store: store, Jobs: []Job{{Name: "sweep", Period: time.Millisecond, Do: func(ctx context.Context) (string, error) {
		runOther(0)
		if _, err := store.Pool().Exec(ctx, "update scheduler_go.keeper set began = began - interval '1 hour', until = clock_timestamp()"); err != nil {
			return "", err
		}
		runOther(1)
		return "late", nil
	}}}}
	if err := stalled.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, err := store.MaintenanceJobs(t.Context()); err != nil || len(jobs) != 1 || jobs[0].Result != "by another" {
		t.Errorf("%+v, %v", jobs, err)
	}
}
