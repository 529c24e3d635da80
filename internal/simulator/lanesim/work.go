package lanesim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/simulator"
)

type Job struct {
	Arrival time.Duration // since the start
	Runtime time.Duration // without a time limit
	Origin  string        // "" for none
	Lister  string
	Behind  float64 // seconds since the previous visit; 0 if unknown
}

type Load struct {
	Workers  int
	Busy     float64 // the fraction of the time in which workers are busy; below 1
	Batch    int     // number of jobs that arrive at the same time, as by a claim
	Duration time.Duration
}

// maxJobs bounds the number of jobs, which take some hundred bytes of memory each.
const maxJobs = 10_000_000

// check returns an error if the number of jobs is unbounded or exceeds maxJobs. mean is the mean runtime in seconds.
func (l Load) check(mean float64) error {
	if !(mean > 0) {
		return errors.New("the mean runtime must be more than 0, or no workers are ever busy")
	}
	jobs := l.Duration.Seconds()/mean*l.Busy*float64(l.Workers) + float64(l.Batch)
	if jobs > maxJobs {
		return fmt.Errorf("the simulation would have about %.3g jobs, more than the limit of %d: use fewer workers, a shorter runtime or smaller batches", jobs, maxJobs)
	}
	return nil
}

// arrivals calls arrive with the arrival time of each job, in seconds. mean is the mean runtime in seconds.
func (l Load) arrivals(mean float64, random *rand.Rand, arrive func(at float64)) {
	gap := mean / (l.Busy * float64(l.Workers)) * float64(l.Batch)
	for at := random.ExpFloat64() * gap; at < l.Duration.Seconds(); at += random.ExpFloat64() * gap {
		for range l.Batch {
			arrive(at)
		}
	}
}

// Arrivals returns jobs whose runtimes are drawn from seen, or an error if they would be too many.
func Arrivals(seen []RecordedRun, load Load, random *rand.Rand) ([]Job, error) {
	total := 0.0
	for _, s := range seen {
		total += s.Seconds
	}
	mean := total / float64(len(seen))
	if err := load.check(mean); err != nil {
		return nil, err
	}
	var jobs []Job
	load.arrivals(mean, random, func(at float64) {
		s := seen[random.IntN(len(seen))]
		jobs = append(jobs, Job{Arrival: model.Duration(at), Runtime: model.Duration(s.Seconds), Origin: s.Origin, Lister: s.Lister})
	})
	return jobs, nil
}

type RecordedRun struct {
	Seconds        float64
	Origin, Lister string
}

// maxRuntime is the longest runtime in a file, in seconds: a year.
const maxRuntime = 366 * 24 * 3600

// ReadRuntimes reads a CSV file with a header and a column runtime in seconds. Predictions use the optional columns
// origin and lister. Errors name the line.
func ReadRuntimes(r io.Reader) ([]RecordedRun, error) {
	var seen []RecordedRun
	err := simulator.ReadCSV(r, []string{"runtime"}, func(field func(column string) string) error {
		s, err := strconv.ParseFloat(strings.TrimSpace(field("runtime")), 64)
		if err != nil || !(s >= 0 && s <= maxRuntime) {
			return fmt.Errorf("runtime must be a number of seconds between 0 and %d", maxRuntime)
		}
		seen = append(seen, RecordedRun{s, field("origin"), field("lister")})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 {
		return nil, errors.New("the file has no runtimes")
	}
	return seen, nil
}

// ModelArrivals returns jobs by the Python scheduler's model, in a steady state: visits of origins, each after
// between on average. It returns an error if the jobs or the origins would be too many.
func ModelArrivals(between time.Duration, load Load, random *rand.Rand) ([]Job, error) {
	interval := func() float64 { return simulator.CommitInterval(strconv.FormatUint(random.Uint64(), 36)) }
	runTime := func(interval, behind float64) float64 {
		s, _ := simulator.RunTime(interval, model.Duration(behind))
		return s
	}
	mean, draws := 0.0, 200_000
	for range draws {
		// The time between visits is exponential, as visits come at random.
		mean += runTime(interval(), random.ExpFloat64()*between.Seconds()) / float64(draws)
	}
	if err := load.check(mean); err != nil {
		return nil, err
	}
	origins := between.Seconds() * load.Busy * float64(load.Workers) / mean
	if origins > maxJobs {
		return nil, fmt.Errorf("the simulation would have about %.3g origins, more than the limit of %d: use fewer workers or less time between visits", origins, maxJobs)
	}
	intervals := make([]float64, max(1, int(origins)))
	last := make([]float64, len(intervals))
	for i := range intervals {
		intervals[i], last[i] = interval(), -random.ExpFloat64()*between.Seconds()
	}
	var jobs []Job
	load.arrivals(mean, random, func(at float64) {
		i := random.IntN(len(intervals))
		behind := at - last[i]
		last[i] = at
		jobs = append(jobs, Job{
			Arrival: model.Duration(at), Runtime: model.Duration(runTime(intervals[i], behind)),
			Origin: strconv.Itoa(i), Behind: behind,
		})
	})
	return jobs, nil
}
