package listener

import (
	"sync"
	"time"

	"swh-scheduler/internal/model"
)

// lag measures the delay of the listener. The listener writes it, and the collector of metrics reads it. Times of
// events are in seconds since 1970, by the workers' clocks.
type lag struct {
	mu     sync.Mutex
	inHand float64   // sending time of the first event that is not acknowledged; 0 if none
	last   float64   // seconds from the sending of the last such event to its acknowledgement
	since  time.Time // when events were last acknowledged, by this host's clock
}

// read records an event. It keeps the time of the first one only: a later event may come from a worker with a wrong
// clock.
func (l *lag) read(sent float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inHand == 0 {
		l.inHand = sent
	}
}

// acknowledged records that all events read are acknowledged: at by this host's clock, and now by the database's.
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
