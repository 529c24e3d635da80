package celery

import (
	"sync"
	"time"
)

const (
	// maxRetired bounds the connections that are open for late answers only.
	maxRetired = 4

	// retiredTime is how long such a connection is kept, if the broker answers on another
	// one. A queue that doesn't answer may block a connection, with messages for other
	// queues in it, for as long as it is down.
	retiredTime = 10 * time.Second
)

// retire has a session send no more. Its connection stays open for the answers to what was
// sent, unless the broker answers on another one only. A session that the broker blocks,
// as it does in an alarm, stays in use: so would any other be.
func (p *Publisher) retire(s *publishSession) {
	p.sessionM.Lock()
	defer p.sessionM.Unlock()
	if p.retired[s] || len(p.retired) >= maxRetired || s.isBlocked() || !s.alive() {
		return
	}
	if p.retired == nil {
		p.retired = make(map[*publishSession]bool)
	}
	p.retired[s] = true
	s.end()
	p.log.Warn("a connection to the broker doesn't answer; taking another one")
	p.tasks.Go(func() {
		p.awaitRetired(s, time.Now())
		p.sessionM.Lock()
		delete(p.retired, s)
		p.sessionM.Unlock()
	})
}

// awaitRetired closes a session's connection when all it sent is answered, and resets it
// when it doesn't answer while another one does.
func (p *Publisher) awaitRetired(s *publishSession, since time.Time) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.open() {
		current := p.current()
		switch {
		case s.unanswered.Load() == 0:
			s.conn.close()
		case time.Since(since) > retiredTime && current != s && current.confirmed.Load() > since.UnixNano() && !s.isBlocked():
			p.log.Warn("a connection to the broker still doesn't answer, and another does; closing it", "unanswered", s.unanswered.Load())
			s.conn.reset()
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done(): // Close closes it
			return
		}
	}
}

// suspects are queues that did not answer.
type suspects struct {
	m     sync.Mutex
	names map[string]bool
}

func (s *suspects) has(queue string) bool {
	s.m.Lock()
	defer s.m.Unlock()
	return s.names[queue]
}

func (s *suspects) add(queue string) {
	s.m.Lock()
	defer s.m.Unlock()
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	s.names[queue] = true
}

func (s *suspects) clear(queue string) {
	s.m.Lock()
	defer s.m.Unlock()
	delete(s.names, queue)
}
