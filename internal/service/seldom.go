package service

import (
	"sync"
	"time"
)

// seldomPeriod is how often lines of one kind are logged.
const seldomPeriod = time.Minute

// Seldom limits log lines: of each kind it lets one through a minute. It is safe for
// concurrent use; the zero value is ready to use.
type Seldom struct {
	mu   sync.Mutex
	last map[string]time.Time
	held map[string]int
}

// Log reports whether to log what has happened, and how many of its kind were not
// logged since the last one that was.
func (s *Seldom) Log(kind string) (held int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last, s.held = map[string]time.Time{}, map[string]int{}
	}
	now := time.Now()
	if last, seen := s.last[kind]; seen && now.Sub(last) < seldomPeriod {
		s.held[kind]++
		return 0, false
	}
	held = s.held[kind]
	s.last[kind], s.held[kind] = now, 0
	return held, true
}
