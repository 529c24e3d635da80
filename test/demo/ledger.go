package main

import (
	"bytes"
	"iter"
	"slices"
	"time"
)

// ledger is the history of visits, put together from observations, as the
// database keeps only the last one of each origin.
type ledger struct {
	claims  map[string][]time.Time // by URL: each time it was scheduled
	results map[string][]result    // by URL: each result applied
	last    observation
}

// result is the outcome of a visit in the database.
type result struct {
	Seen     time.Time // when it was first observed there
	Date     time.Time // when the worker wrote it
	Status   string
	Snapshot []byte
}

func newLedger() *ledger {
	return &ledger{claims: map[string][]time.Time{}, results: map[string][]result{}}
}

// add notes what has changed since the observation before.
func (l *ledger) add(o observation) {
	for _, v := range o.Visits {
		if claims := l.claims[v.URL]; v.LastScheduled != nil &&
			(len(claims) == 0 || !claims[len(claims)-1].Equal(*v.LastScheduled)) {
			l.claims[v.URL] = append(claims, *v.LastScheduled)
		}
		if results := l.results[v.URL]; v.LastVisit != nil &&
			(len(results) == 0 || !results[len(results)-1].Date.Equal(*v.LastVisit)) {
			l.results[v.URL] = append(results, result{o.At, *v.LastVisit, v.Status, v.Snapshot})
		}
	}
	l.last = o
}

// count counts the values of which something is true.
func count[V any](values iter.Seq[V], is func(V) bool) (n int) {
	for v := range values {
		if is(v) {
			n++
		}
	}
	return n
}

// visited counts the repositories that have a result.
func (l *ledger) visited(repositories []repository) int {
	return count(slices.Values(repositories), func(r repository) bool { return len(l.results[r.URL()]) > 0 })
}

// scheduled counts the claims of all origins.
func (l *ledger) scheduled() int {
	count := 0
	for _, claims := range l.claims {
		count += len(claims)
	}
	return count
}

// outcomes counts the results of all origins by status.
func (l *ledger) outcomes() map[string]int {
	count := map[string]int{}
	for _, results := range l.results {
		for _, r := range results {
			count[r.Status]++
		}
	}
	return count
}

// savedRun returns the run of the save-code-now request, if it has one: the
// only run of a task with a priority.
func (l *ledger) savedRun() (runRow, bool) {
	i := slices.IndexFunc(l.last.Runs, func(run runRow) bool { return run.Priority != "" })
	if i < 0 {
		return runRow{}, false
	}
	return l.last.Runs[i], true
}

// latencies are the times from a visit's claim to its result in the database,
// in increasing order. They are exact to the time between two observations.
func (l *ledger) latencies() []time.Duration {
	var latencies []time.Duration
	for url, claims := range l.claims {
		results := l.results[url]
		for i := range min(len(claims), len(results)) {
			latencies = append(latencies, results[i].Seen.Sub(claims[i]))
		}
	}
	slices.Sort(latencies)
	return latencies
}

// foundNews says whether an origin's last visit saw another state than its first.
func (l *ledger) foundNews(url string) bool {
	results := l.results[url]
	return len(results) > 1 && !bytes.Equal(results[0].Snapshot, results[len(results)-1].Snapshot)
}

// percentile returns the smallest of the sorted values that p per cent of them
// do not exceed (nearest rank); 0 if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
