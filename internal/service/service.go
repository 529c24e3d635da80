package service

import (
	"log/slog"
	"sync"
	"time"
)

// Service records whether a service of the daemon (PostgreSQL, RabbitMQ, Kafka) can be reached, and logs one line
// each time that changes. It is safe for concurrent use.
type Service struct {
	name string
	trouble
}

// NewService makes a Service that counts as reachable, called name in the log.
func NewService(log *slog.Logger, name string) *Service {
	return &Service{name, trouble{
		log: log, begins: name + " is not reachable; retrying", lasts: name + " is still not reachable", ends: name + " is back",
	}}
}

// Refused reports that a try has failed although the service can be reached, and that another try follows.
func (s *Service) Refused(err error) {
	s.failed(s.name+" is reachable, but refuses; retrying", s.name+" still refuses", err)
}

// Tried reports how a try has ended: by Failed, or by OK if err is nil.
func (s *Service) Tried(err error) {
	if err != nil {
		s.Failed(err)
	} else {
		s.OK()
	}
}

// trouble records since when an operation fails, and logs one line each time that changes. It is safe for concurrent
// use.
type trouble struct {
	log                 *slog.Logger
	begins, lasts, ends string // the lines

	mu     sync.Mutex
	from   time.Time // since when it fails; zero while it succeeds
	logged string    // the line that reported the failure
}

// Failed reports that a try has failed and that another follows. The error must hold no password. Only the first
// failure in a row is logged above debug.
func (t *trouble) Failed(err error) { t.failed(t.begins, t.lasts, err) }

// failed is Failed with other lines; the first failure with a new line is logged, too.
func (t *trouble) failed(begins, lasts string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.from.IsZero() && t.logged == begins {
		t.log.Debug(lasts, "error", err)
		return
	}
	if t.from.IsZero() {
		t.from = time.Now()
	}
	t.logged = begins
	t.log.Warn(begins, "error", err)
}

// OK reports that a try has succeeded.
func (t *trouble) OK() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from.IsZero() {
		return
	}
	t.log.Info(t.ends, "after", time.Since(t.from).Round(time.Millisecond))
	t.from = time.Time{}
}

// since returns since when it fails, zero while it succeeds.
func (t *trouble) since() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from
}
