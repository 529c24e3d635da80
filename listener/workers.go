package listener

import (
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

// workers remembers which workers were heard of lately. It is written by the
// listener and read by whoever gathers metrics.
type workers struct {
	mu    sync.Mutex
	heard map[string]time.Time
}

func newWorkers() *workers { return &workers{heard: make(map[string]time.Time)} }

// hear is told of each event about a worker.
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

// online is how many workers are there.
func (w *workers) online(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	return len(w.heard)
}

// forget drops the silent ones; it needs the lock.
func (w *workers) forget(now time.Time) {
	for name, heard := range w.heard {
		if now.Sub(heard) > workerSilence {
			delete(w.heard, name)
		}
	}
}
