package service

import (
	"sync"
	"time"
)

// logLimitPeriod is how often lines of one kind are logged.
const logLimitPeriod = time.Minute

// LogLimit limits log lines to one of each kind a minute. It is safe for concurrent use; the zero value is ready to
// use.
type LogLimit struct {
	mu   sync.Mutex
	last map[string]time.Time
	held map[string]int
}

// Log reports whether to log an event of a kind, and how many of its kind were not logged since the last one that
// was.
func (s *LogLimit) Log(kind string) (held int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last, s.held = map[string]time.Time{}, map[string]int{}
	}
	now := time.Now()
	if last, seen := s.last[kind]; seen && now.Sub(last) < logLimitPeriod {
		s.held[kind]++
		return 0, false
	}
	held = s.held[kind]
	s.last[kind], s.held[kind] = now, 0
	return held, true
}
