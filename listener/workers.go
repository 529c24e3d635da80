package listener

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"swh-scheduler/sql/db"
)

const (
	// workerSilence is how long a worker that is well may be silent: it sends a
	// heartbeat every two seconds, but listeners that share the queue get only
	// some of them.
	workerSilence = time.Minute
	// maxWorkers bounds the memory that made-up names can take.
	maxWorkers = 100_000
	// maxListed is how many workers a listener reports at most.
	maxListed = 500
	// maxEnds is how many ends are remembered at least, more than a listener has in hand
	// when its connection is lost: the broker delivers those again.
	maxEnds = 20_000
	// endsMinutes is over how many whole minutes a worker's ends are counted.
	endsMinutes = 5
)

// workers remembers which workers were heard of lately, and what they did. The listener writes it,
// and whoever gathers metrics reads it.
type workers struct {
	mu    sync.Mutex
	heard map[string]*worker

	// Hashes of the last ends that were counted, and of those before them.
	seed               maphash.Seed
	ended, endedBefore map[uint64]bool
}

type worker struct {
	last   time.Time
	active int                         // tasks in hand, by the last heartbeat
	ends   [endsMinutes + 1]minuteEnds // of the minutes, in turn
}

// minuteEnds counts what ended in a minute.
type minuteEnds struct{ minute, ended, failed int }

func newWorkers() *workers {
	return &workers{heard: make(map[string]*worker), seed: maphash.MakeSeed(), ended: make(map[uint64]bool)}
}

// hear takes note of an event about a worker with so many tasks in hand.
func (w *workers) hear(eventType, name string, active int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch eventType {
	case "worker-online", "worker-heartbeat":
		if len(w.heard) >= maxWorkers {
			w.forget(now)
		}
		if w.heard[name] == nil && len(w.heard) < maxWorkers {
			w.heard[name] = &worker{}
		}
		if known := w.heard[name]; known != nil {
			known.last, known.active = now, active
		}
	case "worker-offline":
		delete(w.heard, name)
	}
}

// end counts the end of a task, by Celery's id, on a worker that was heard of. What was
// counted of late is not counted again.
func (w *workers) end(name, id string, failed bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, key := w.heard[name], maphash.Comparable(w.seed, [2]string{name, id})
	if known == nil || w.ended[key] || w.endedBefore[key] {
		return
	}
	if len(w.ended) >= maxEnds {
		w.ended, w.endedBefore = make(map[uint64]bool), w.ended
	}
	w.ended[key] = true
	minute := int(now.Unix() / 60)
	e := &known.ends[minute%len(known.ends)]
	if e.minute != minute {
		*e = minuteEnds{minute: minute}
	}
	e.ended++
	if failed {
		e.failed++
	}
}

// tell returns the first workers by name.
func (w *workers) tell(now time.Time) map[string]db.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	told := make(map[string]db.Worker)
	for _, name := range slices.Sorted(maps.Keys(w.heard))[:min(len(w.heard), maxListed)] {
		known := w.heard[name]
		t := db.Worker{Heard: known.last, Active: known.active}
		for _, e := range known.ends {
			if ago := int(now.Unix()/60) - e.minute; ago >= 1 && ago <= endsMinutes {
				t.Ended, t.Failed = t.Ended+e.ended, t.Failed+e.failed
			}
		}
		told[name] = t
	}
	return told
}

// online returns the number of workers.
func (w *workers) online(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	return len(w.heard)
}

// forget drops the silent ones; it needs the lock.
func (w *workers) forget(now time.Time) {
	maps.DeleteFunc(w.heard, func(_ string, known *worker) bool { return now.Sub(known.last) > workerSilence })
}
