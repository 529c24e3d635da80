package listener

import (
	"sync"
	"time"

	"swh-scheduler/internal/model"
)

// lag is how far the listener is behind. The listener writes it, and whoever gathers metrics
// reads it. Times of events are in seconds since 1970, by the workers' clocks.
type lag struct {
	mu     sync.Mutex
	inHand float64   // when the first event was sent that is not acknowledged; 0 if none
	last   float64   // seconds from the sending of the last first one to its acknowledgement
	since  time.Time // when events were last acknowledged, by this host's clock
}

// read notes an event. The first one counts, as any other may be of a worker whose clock is
// wrong.
func (l *lag) read(sent float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inHand == 0 {
		l.inHand = sent
	}
}

// acknowledged notes that all that was read is acknowledged: by this host's clock, and by the
// database's.
func (l *lag) acknowledged(at, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = at
	if l.inHand > 0 {
		l.last, l.inHand = max(0, model.UnixSeconds(now)-l.inHand), 0
	}
}

func (l *lag) seconds(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inHand > 0 {
		return max(l.last, model.UnixSeconds(now)-l.inHand)
	}
	return l.last
}

func (l *lag) sinceLastEvent(at time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return at.Sub(l.since).Seconds()
}
