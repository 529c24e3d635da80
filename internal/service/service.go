package service

import (
	"log/slog"
	"sync"
	"time"
)

// Service remembers whether something the daemon depends on (PostgreSQL,
// RabbitMQ, Kafka) can be reached, and logs one line each time that changes. It is
// safe for concurrent use.
type Service struct {
	name string
	log  *slog.Logger

	mu   sync.Mutex
	away time.Time // since when it cannot be reached; zero while it can
}

// NewService makes a Service that counts as reachable, called name in the log.
func NewService(log *slog.Logger, name string) *Service {
	return &Service{name: name, log: log}
}

// Failed reports that a try has failed and that there will be another. The error
// must hold no password. Only the first failure in a row is logged above debug.
func (s *Service) Failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away.IsZero() {
		s.log.Debug(s.name+" is still not reachable", "error", err)
		return
	}
	s.away = time.Now()
	s.log.Warn(s.name+" is not reachable; retrying", "error", err)
}

// OK reports that a try has succeeded.
func (s *Service) OK() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.IsZero() {
		return
	}
	s.log.Info(s.name+" is back", "after", time.Since(s.away).Round(time.Millisecond))
	s.away = time.Time{}
}

// awaySince returns since when it cannot be reached, zero if it can.
func (s *Service) awaySince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}
