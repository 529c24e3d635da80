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
	// workerSilence is the longest time between events of a live worker. A worker sends a heartbeat every two
	// seconds, but listeners that share the queue get only some of them.
	workerSilence = time.Minute
	// maxWorkers bounds the memory that forged names can take.
	maxWorkers = 100_000
	// maxName is the longest name of a worker, in bytes. Celery names a queue after it, and AMQP bounds those.
	maxName = 255
	// maxListed is how many workers a listener reports at most.
	maxListed = 500
	// maxEnds is how many ends are stored at least. It is above the number of events in a listener's memory when its
	// connection is lost: the broker delivers those again.
	maxEnds = 20_000
	// endsMinutes is the number of whole minutes over which a worker's ends are counted.
	endsMinutes = 5
)

// workers holds the workers with recent events, and counts their ends. The listener writes it, and the collector of
// metrics reads it.
type workers struct {
	mu     sync.Mutex
	byName map[string]*worker

	// Hashes of the last ends that were counted, and of the ends before them.
	seed               maphash.Seed
	ended, endedBefore map[uint64]bool
}

type worker struct {
	last   time.Time
	active int                         // running tasks, by the last heartbeat
	ends   [endsMinutes + 1]minuteEnds // by minute, in rotation
}

// minuteEnds counts the ends of a minute.
type minuteEnds struct{ minute, ended, failed int }

func newWorkers() *workers {
	return &workers{byName: make(map[string]*worker), seed: maphash.MakeSeed(), ended: make(map[uint64]bool)}
}

// record stores an event of a worker with so many running tasks.
func (w *workers) record(eventType, name string, active int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch eventType {
	case "worker-online", "worker-heartbeat":
		if len(name) > maxName {
			return
		}
		if len(w.byName) >= maxWorkers {
			w.forget(now)
		}
		if w.byName[name] == nil && len(w.byName) < maxWorkers {
			w.byName[name] = &worker{}
		}
		if known := w.byName[name]; known != nil {
			known.last, known.active = now, active
		}
	case "worker-offline":
		delete(w.byName, name)
	}
}

// end counts the end of a task, by Celery's id, on a worker with recent events. It counts a repeated end only once.
func (w *workers) end(name, id string, failed bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, key := w.byName[name], maphash.Comparable(w.seed, [2]string{name, id})
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

// list returns the first workers by name.
func (w *workers) list(now time.Time) map[string]db.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	told := make(map[string]db.Worker)
	for _, name := range slices.Sorted(maps.Keys(w.byName))[:min(len(w.byName), maxListed)] {
		known := w.byName[name]
		t := db.Worker{LastEvent: known.last, Active: known.active}
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
	return len(w.byName)
}

// forget removes workers without recent events; the caller holds the lock.
func (w *workers) forget(now time.Time) {
	maps.DeleteFunc(w.byName, func(_ string, known *worker) bool { return now.Sub(known.last) > workerSilence })
}
