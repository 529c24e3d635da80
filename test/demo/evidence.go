package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"swh-scheduler/internal/archive"
)

// evidence is all that the verdict is drawn from. It is put together from looks at the
// scheduler's database, which keeps only the last visit of each origin, from the storage, the
// broker and the workers' logs.
type evidence struct {
	Last      view
	Claims    map[string][]time.Time // by URL: each time it was scheduled
	First     map[string]string      // by URL: the snapshot of the first visit with a result, which may have none
	Latencies []time.Duration        // from a visit's claim to its result in the scheduler's database

	Asked      time.Time // when save code now was
	Faults     []fault   // that fell
	Expected   int       // faults that should have fallen
	Origins    []expected
	Stored     []archive.Visit
	Queues     map[string]queue
	Executions executions
	Stopped    []stopped // nil if they were left running
}

// expected is an origin with what the storage should have of it in the end.
type expected struct {
	origin
	Status, Tip string
}

// stopped is how one of our daemons ended when told to.
type stopped struct {
	Name string
	Took time.Duration
	Err  error
}

func newEvidence() *evidence {
	return &evidence{Claims: map[string][]time.Time{}, First: map[string]string{}}
}

// add notes what has changed since the look before.
func (e *evidence) add(v view) {
	for url, k := range v.Known {
		if claims := e.Claims[url]; k.Scheduled != nil && (len(claims) == 0 || !claims[len(claims)-1].Equal(*k.Scheduled)) {
			e.Claims[url] = append(claims, *k.Scheduled)
		}
		before := e.Last.Known[url]
		if k.Visited != nil && (before.Visited == nil || !before.Visited.Equal(*k.Visited)) && k.Scheduled != nil {
			e.Latencies = append(e.Latencies, v.At.Sub(*k.Scheduled))
		}
		if _, ok := e.First[url]; !ok && k.Status != "" {
			e.First[url] = k.Snapshot
		}
	}
	e.Last = v
}

// open reports whether a run of a task is.
func (e *evidence) open() bool { return slices.ContainsFunc(e.Last.Runs, taskRun.open) }

// saveRun returns the run of save code now, if it has one: the only run of a task with a
// priority.
func (e *evidence) saveRun() (taskRun, bool) {
	i := slices.IndexFunc(e.Last.Runs, func(r taskRun) bool { return r.Priority != "" })
	if i < 0 {
		return taskRun{}, false
	}
	return e.Last.Runs[i], true
}

// differences names the origins of which the scheduler knows something else than the
// storage has.
func (e *evidence) differences() (differences []string) {
	stored := map[string]archive.Visit{}
	for _, v := range e.Stored {
		stored[v.Origin] = v
	}
	for url, v := range stored {
		status := map[string]string{"full": "successful"}[v.Status]
		k := e.Last.Known[url]
		if k.Status != cmp.Or(status, v.Status) || v.Status == "full" && k.Snapshot != v.Snapshot {
			differences = append(differences, fmt.Sprintf("%s: stored is %s %.8s, known %s %.8s", url, v.Status, v.Snapshot, k.Status, k.Snapshot))
		}
	}
	for url, k := range e.Last.Known {
		if _, ok := stored[url]; !ok && k.Status != "" {
			differences = append(differences, fmt.Sprintf("%s: known %s, nothing stored", url, k.Status))
		}
	}
	return differences
}

// visits returns the visits of an origin that the storage has.
func (e *evidence) visits(url string) []archive.Visit {
	return slices.DeleteFunc(slices.Clone(e.Stored), func(v archive.Visit) bool { return v.Origin != url })
}

// overtaken returns how long each first visit waited that was claimed before save code now was
// asked for, and began after it was served, in increasing order.
func (e *evidence) overtaken() (waits []time.Duration) {
	var served time.Time
	for _, o := range e.Origins {
		if visits := e.visits(o.URL); o.Kind == wanted && len(visits) > 0 {
			served = visits[0].Date
		}
	}
	for _, o := range e.Origins {
		claims, visits := e.Claims[o.URL], e.visits(o.URL)
		if o.Type == "git" && len(claims) > 0 && len(visits) > 0 && claims[0].Before(e.Asked) && visits[0].Date.After(served) {
			waits = append(waits, visits[0].Date.Sub(claims[0]))
		}
	}
	slices.Sort(waits)
	return waits
}

// shared returns how many first visits of each forge were claimed until all of the small one
// were, and how many the large one had left then.
func (e *evidence) shared() (ofLarge, ofSmall, left int) {
	first := map[string][]time.Time{}
	for _, o := range e.Origins {
		if claims := e.Claims[o.URL]; len(claims) > 0 && o.Kind != wanted {
			first[o.Forge] = append(first[o.Forge], claims[0])
		}
	}
	if len(first[small]) == 0 {
		return 0, 0, 0
	}
	until := slices.MaxFunc(first[small], time.Time.Compare)
	for _, at := range first[large] {
		if at.After(until) {
			left++
		}
	}
	return len(first[large]) - left, len(first[small]), left
}

// twice returns when tasks were run that had been run before.
func (e *evidence) twice() (at []time.Time) {
	for _, ended := range e.Executions.Ended {
		at = append(at, ended[1:]...)
	}
	return at
}

// repeats returns from when messages may come twice: since a daemon was killed that sends, with
// some in its hands, or connections to the broker were cut; zero if neither was.
func (e *evidence) repeats() time.Time {
	for _, f := range e.Faults {
		if f.Name == connections || slices.Contains(senders, f.Name) {
			return f.At
		}
	}
	return time.Time{}
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
