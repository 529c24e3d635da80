package listener

import (
	"maps"
	"sync"
	"time"
)

const (
	// workerSilence is how long a worker that is well may be silent: it sends a
	// heartbeat every two seconds, but listeners that share the queue get only
	// some of them.
	workerSilence = time.Minute
	// maxWorkers bounds the memory that made-up names can take.
	maxWorkers = 100_000
)

// workers remembers which workers were heard of lately. The listener writes it,
// and whoever gathers metrics reads it.
type workers struct {
	mu    sync.Mutex
	heard map[string]time.Time
}

func newWorkers() *workers { return &workers{heard: make(map[string]time.Time)} }

// hear takes note of an event about a worker.
func (w *workers) hear(eventType, name string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch eventType {
	case "worker-online", "worker-heartbeat":
		if len(w.heard) >= maxWorkers {
			w.forget(now)
		}
		if len(w.heard) < maxWorkers {
			w.heard[name] = now
		}
	case "worker-offline":
		delete(w.heard, name)
	}
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
	maps.DeleteFunc(w.heard, func(_ string, heard time.Time) bool { return now.Sub(heard) > workerSilence })
}
