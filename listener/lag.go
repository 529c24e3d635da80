package listener

import (
	"slices"
	"sync"
	"time"

	"swh-scheduler/internal/model"
)

// lag measures the delay of the listener. The listener writes it, and the collector of metrics reads it. Times of
// events are in seconds since 1970, by the workers' clocks.
type lag struct {
	mu     sync.Mutex
	inHand []firstEvent // of the batches that are not acknowledged, in their order
	last   float64      // seconds from the sending of the last such event to its acknowledgement
	since  time.Time    // when events were last acknowledged, by this host's clock
}

// firstEvent is the sending time of a batch's first event that has one.
type firstEvent struct {
	batch int // its number
	sent  float64
}

// read records an event of the newest batch. It keeps the time of the batch's first one only: a later event may come from a worker
// with a wrong clock.
func (l *lag) read(batch int, sent float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.inHand); n == 0 || l.inHand[n-1].batch != batch {
		l.inHand = append(l.inHand, firstEvent{batch, sent})
	}
}

// acknowledged records that a batch and all before it are acknowledged: at by this host's clock, and now by the database's.
func (l *lag) acknowledged(batch int, at, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = at
	first, before := l.first(), len(l.inHand)
	l.inHand = slices.DeleteFunc(l.inHand, func(e firstEvent) bool { return e.batch <= batch })
	if len(l.inHand) < before {
		l.last = max(0, model.UnixSeconds(now)-first)
	}
}

// first returns the sending time of the first event that is not acknowledged; 0 if there is none. The caller holds mu.
func (l *lag) first() float64 {
	if len(l.inHand) == 0 {
		return 0
	}
	return l.inHand[0].sent
}

func (l *lag) seconds(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.first(); first > 0 {
		return max(l.last, model.UnixSeconds(now)-first)
	}
	return l.last
}

func (l *lag) sinceLastEvent(at time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return at.Sub(l.since).Seconds()
}
