package celery

import (
	"sync"
	"time"
)

const (
	// maxRetired bounds the connections that stay open only for late answers.
	maxRetired = 4

	// retiredTime is how long such a connection stays open if messages for queues that answer on another one are
	// stuck in it. The queue that doesn't answer blocks the connection for as long as it is down.
	retiredTime = 10 * time.Second
)

// retire stops sending on a session. Its connection stays open for outstanding answers, unless it delays queues that
// answer on another connection. A session that the broker blocks stays in use: in an alarm, the broker would block
// any other one, too.
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
		if s.open() { // Close finds it in the map, and closes it
			return
		}
		p.sessionM.Lock()
		delete(p.retired, s)
		p.sessionM.Unlock()
	})
}

// awaitRetired closes a session's connection when all its messages are answered, and resets it when it delays queues
// that answer on another connection. It returns with an open connection when Close begins.
func (p *Publisher) awaitRetired(s *publishSession, since time.Time) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.open() {
		switch {
		case s.unanswered.Load() == 0:
			s.conn.close()
		case time.Since(since) > retiredTime && s.holdsUp(p.suspects) && !s.isBlocked():
			p.log.Warn("a connection to the broker still doesn't answer, and holds up queues that do; closing it", "unanswered", s.unanswered.Load())
			s.conn.reset()
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// holdsUp reports whether a message for a queue that is no longer a suspect is unanswered.
func (s *publishSession) holdsUp(suspects *sync.Map) bool {
	return s.late.any(func(queue string) bool {
		_, suspect := suspects.Load(queue)
		return !suspect
	})
}
