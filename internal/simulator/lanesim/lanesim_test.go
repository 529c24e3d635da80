package lanesim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
)

func lane(name string, limit time.Duration, slots, least, most int) model.Lane {
	return model.Lane{Name: name, SoftTimeLimit: limit, Slots: slots, MinSlots: least, MaxSlots: most}
}

// The design's worked example: two lanes of one slot, of one and of fifteen minutes, and four jobs of unknown
// runtime.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	jobs := []Job{
		{Runtime: 10 * time.Second, Lister: "fast1"}, {Runtime: 10 * time.Minute, Lister: "slow1"},
		{Runtime: 10 * time.Minute, Lister: "slow2"}, {Runtime: 10 * time.Second, Lister: "fast2"},
	}
	lanes := []model.Lane{lane("express", time.Minute, 1, 1, 1), lane("slow", 15*time.Minute, 1, 1, 1)}
	done, err := Run(t.Context(), jobs, lanes, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range done {
		got = append(got, d.Lister+" "+d.End.String())
	}
	want := []string{"fast1 10s", "fast2 1m10s", "slow2 10m10s", "slow1 20m10s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := done[3]; d.TimedOut != 1 || d.First != 0 || d.Wait != 10*time.Minute+10*time.Second {
		t.Errorf("slow1: %+v", d)
	}
}

// The runtimes and the workers are those of the Python scheduler's model, and the load is 0.9. The shorter half of
// visits waits at most a tenth of the time. The slowest tenth waits at most half as long again in the median, and
// twice as long at the 95th percentile. That holds for single arrivals, when the median wait of the shorter half is
// zero, and for batches, as claims bring them.
func TestLanesShortenWaits(t *testing.T) {
	t.Parallel()
	const workers = 48
	lanes := []model.Lane{lane("express", time.Minute, 4, 1, 8), lane("slow", 4*time.Hour, 44, 1, 47)}
	for name, batch := range map[string]int{"one by one": 1, "in batches": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, err := ModelArrivals(24*time.Hour, Load{workers, 0.9, batch, 14 * 24 * time.Hour}, seed.Rand(t))
			if err != nil {
				t.Fatal(err)
			}
			c := compare(t, jobs, lanes, workers)
			t.Log("\n" + c.Text(true, false))
			with, without := WaitsOf(c.With, Classes), WaitsOf(c.Without, Classes)
			quick, slow := 0, 2
			if 10*with[quick].Median > without[quick].Median || 10*with[quick].P95 > without[quick].P95 {
				t.Errorf("%s: %+v, without lanes %+v", Classes[quick].Name, with[quick], without[quick])
			}
			if batch > 1 && with[slow].Median > without[slow].Median*3/2 || with[slow].P95 > 2*without[slow].P95 {
				t.Errorf("%s: %+v, without lanes %+v", Classes[slow].Name, with[slow], without[slow])
			}
		})
	}
}

func compare(t *testing.T, jobs []Job, lanes []model.Lane, workers int) Comparison {
	t.Helper()
	c, err := Compare(t.Context(), jobs, lanes, workers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// known returns jobs that come together, each preceded by itself alone, so that all runtimes are known.
func known(jobs []Job) []Job {
	var all []Job
	for i, job := range jobs {
		job.Arrival, job.Origin = time.Duration(i)*time.Hour, fmt.Sprint(i)
		all = append(all, job)
	}
	for i, job := range jobs {
		job.Arrival, job.Origin = together, fmt.Sprint(i)
		all = append(all, job)
	}
	return all
}

const together = 100 * time.Hour

// An idle slow lane takes the job with the longest expected runtime from the express lane's backlog: the one most
// likely to time out there. This one would.
func TestSlowLaneTakesTheSlowest(t *testing.T) {
	t.Parallel()
	jobs := known([]Job{{Runtime: time.Second}, {Runtime: 10 * time.Second}, {Runtime: 50 * time.Second}, {Runtime: time.Second}})
	jobs[6].Runtime = 70 * time.Second
	done, err := Run(t.Context(), jobs, []model.Lane{lane("express", time.Minute, 1, 1, 1), lane("slow", 15*time.Minute, 1, 1, 1)}, 2)
	if err != nil || len(done) != len(jobs) {
		t.Fatalf("%d done, %v", len(done), err)
	}
	for _, d := range done {
		if d.Arrival == together && d.Origin == "2" && (d.First != 1 || d.TimedOut > 0 || d.Wait > 0) {
			t.Errorf("began in lane %d, timed out %d times, waited for %s", d.First, d.TimedOut, d.Wait)
		}
	}
}

// Slots that become free in a punctual lane move to a lane whose backlog waits for longer than its target.
func TestTargetWaits(t *testing.T) {
	t.Parallel()
	var jobs []Job
	for range 12 {
		jobs = append(jobs, Job{Runtime: 5 * time.Minute})
	}
	for range 60 {
		jobs = append(jobs, Job{Runtime: 30 * time.Second})
	}
	jobs = known(jobs)
	lanes := []model.Lane{lane("express", time.Minute, 1, 1, 4), lane("slow", time.Hour, 3, 1, 4)}
	longest := func() (express, slow time.Duration) {
		done, err := Run(t.Context(), jobs, lanes, 4)
		if err != nil || len(done) != len(jobs) {
			t.Fatalf("%d done, %v", len(done), err)
		}
		for _, d := range done {
			switch {
			case d.Arrival < together:
			case d.Runtime == 30*time.Second:
				express = max(express, d.Wait)
			default:
				slow = max(slow, d.Wait)
			}
		}
		return express, slow
	}
	express, slow := longest()
	lanes[0].TargetWait, lanes[1].TargetWait = time.Minute, time.Hour
	quicker, slower := longest()
	t.Logf("express waits up to %s, slow %s; with targets %s, %s", express, slow, quicker, slower)
	if quicker > express*3/4 || slower > time.Hour {
		t.Error("slots don't follow waits")
	}
}

// Every job ends once, none earlier than possible, and never more jobs run than there are workers.
func TestRunDoesEverythingOnce(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		job := rapid.Custom(func(t *rapid.T) Job {
			return Job{
				Arrival: time.Duration(rapid.IntRange(0, 1000).Draw(t, "arrival")) * time.Second,
				Runtime: time.Duration(rapid.IntRange(0, 500).Draw(t, "runtime")) * time.Second,
				Origin:  rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "origin"),
			}
		})
		jobs := rapid.SliceOfN(job, 0, 60).Draw(t, "jobs")
		workers := rapid.IntRange(2, 10).Draw(t, "workers")
		lanes := []model.Lane{
			lane("express", 20*time.Second, rapid.IntRange(1, 30).Draw(t, "express"), 1, 30),
			lane("slow", 200*time.Second, rapid.IntRange(1, 30).Draw(t, "slow"), 1, 30),
		}
		for i := range lanes {
			lanes[i].TargetWait = time.Duration(rapid.IntRange(0, 100).Draw(t, "target")) * time.Second
		}
		done, err := Run(context.Background(), jobs, lanes, workers)
		if err != nil || len(done) != len(jobs) {
			t.Fatalf("%d of %d jobs done, %v", len(done), len(jobs), err)
		}
		var starts, ends []time.Duration
		for _, d := range done {
			if d.Wait < 0 || d.Failed != (d.TimedOut > 0 && d.Runtime == 200*time.Second) && d.Runtime != 200*time.Second {
				t.Fatalf("%+v", d)
			}
			starts, ends = append(starts, d.End-d.Runtime), append(ends, d.End)
		}
		slices.Sort(starts)
		slices.Sort(ends)
		for i := range starts {
			over, _ := slices.BinarySearchFunc(ends, starts[i], func(e, s time.Duration) int {
				if e <= s {
					return -1
				}
				return 1
			})
			if busy := i + 1 - over; busy > workers {
				t.Fatalf("%d of %d workers are busy at %s", busy, workers, starts[i])
			}
		}
	})
}

func TestReadRuntimes(t *testing.T) {
	t.Parallel()
	got, err := ReadRuntimes(strings.NewReader("origin,runtime,lister\na,1.5,gitea\nb, 20,\n"))
	if diff := cmp.Diff([]RecordedRun{{1.5, "a", "gitea"}, {20, "b", ""}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"":                        "the file is empty; expected a header with runtime",
		"a,b\n1,2\n":              "line 1: no column runtime among a, b",
		"runtime\n":               "the file has no runtimes",
		"runtime\n1\nx\n":         "line 3: runtime must be a number of seconds between 0 and 31622400",
		"runtime\n-1\n":           "line 2: runtime must be a number of seconds between 0 and 31622400",
		"runtime\nNaN\n":          "line 2: runtime must be a number of seconds between 0 and 31622400",
		"runtime,origin\n1,a,b\n": "record on line 2: wrong number of fields",
	} {
		if _, err := ReadRuntimes(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Endless jobs, or more than fit into memory, are an error before any is made.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		seen    []RecordedRun // nil: the model
		load    Load
		between time.Duration
		want    string
	}{
		"runtimes of 0":       {[]RecordedRun{{}}, Load{10, 0.9, 1, day}, 0, "mean runtime"},
		"short runtimes":      {[]RecordedRun{{Seconds: 1e-6}}, Load{10, 0.9, 1, day}, 0, "jobs"},
		"the shortest":        {[]RecordedRun{{Seconds: 5e-324}}, Load{10, 0.9, 1, day}, 0, "jobs"},
		"a large batch":       {[]RecordedRun{{Seconds: 1}}, Load{10, 0.9, math.MaxInt, day}, 0, "jobs"},
		"many workers":        {[]RecordedRun{{Seconds: 1}}, Load{math.MaxInt, 0.9, 1, day}, 0, "jobs"},
		"many workers, model": {nil, Load{math.MaxInt, 0.9, 1, day}, day, "jobs"},
		"a batch, model":      {nil, Load{10, 0.9, math.MaxInt, day}, day, "jobs"},
		"rare visits":         {nil, Load{100_000, 0.9, 1, time.Minute}, 10 * 365 * day, "origins"},
	} {
		var jobs []Job
		var err error
		if tc.seen != nil {
			jobs, err = Arrivals(tc.seen, tc.load, seed.Rand(t))
		} else {
			jobs, err = ModelArrivals(tc.between, tc.load, seed.Rand(t))
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || jobs != nil {
			t.Errorf("%s: %d jobs, %v; want an error about %s", name, len(jobs), err, tc.want)
		}
	}
}

// Drawn runtimes arrive at the rate that keeps workers as busy as configured.
func TestArrivalsKeepWorkersBusy(t *testing.T) {
	t.Parallel()
	seen, err := Arrivals([]RecordedRun{{Seconds: 1}, {Seconds: 99}}, Load{10, 0.9, 5, 100 * time.Hour}, seed.Rand(t))
	if err != nil {
		t.Fatal(err)
	}
	model, err := ModelArrivals(24*time.Hour, Load{10, 0.9, 1, 100 * 24 * time.Hour}, seed.Rand(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, jobs := range map[string][]Job{"seen": seen, "model": model} {
		var work time.Duration
		for _, j := range jobs {
			work += j.Runtime
		}
		last := jobs[len(jobs)-1].Arrival
		if busy := work.Seconds() / last.Seconds() / 10; busy < 0.8 || busy > 1 {
			t.Errorf("%s: busy for %.2f of the time, want 0.9", name, busy)
		}
	}
}
