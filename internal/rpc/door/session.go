package door

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// farewellTimeout bounds the last message to a client.
	farewellTimeout = time.Second
	// upSize is how many bytes are read at once of a client.
	upSize = 8 << 10
)

// session is a connection that passes messages through, after its start.
type session struct {
	client, server net.Conn
	series         *series
	writeTime      time.Duration // that a client may take to read a part of an answer
	alive          time.Duration // after which a client gets a sign of life
	recovered      func()        // deferred: recovers from a panic
	cancel         func()        // asks the database to stop the statement that it is at
	who            Visitor
	daemon         string      // as which it works; "": as all
	denied         atomic.Bool // it ends, as its client may not go on

	mu       sync.Mutex
	state    state
	up, down frames                  // to the server, to the client
	writing  bool                    // a part is on its way to the client
	stopping bool                    // it ends once it is idle
	why      *pgproto3.ErrorResponse // it is stopping
	ended    bool                    // nothing more is passed

	idleSince atomic.Int64 // when the client was heard last, in ns since 1970
	closing   sync.Once
}

// run passes messages through until either side ends, and returns when both connections are closed.
func (s *session) run() {
	s.idleSince.Store(time.Now().UnixNano())
	downwards := make(chan struct{})
	go func() {
		defer close(downwards)
		defer s.recovered()
		s.toClient()
	}()
	s.toServer()
	<-downwards
}

// close closes both connections. The database rolls back what is open.
func (s *session) close() {
	s.closing.Do(func() {
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// toServer passes on what the client sends. If the client is gone while the database works for it, that is
// cancelled: the database would notice only at its next answer.
func (s *session) toServer() {
	defer s.close()
	part := make([]byte, upSize)
	for {
		n, err := s.client.Read(part)
		if n > 0 {
			s.idleSince.Store(time.Now().UnixNano())
			if !s.note(part[:n], &s.up, s.state.sent) {
				return
			}
			count(s.series.fromClient, n)
			if _, err := s.server.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			s.mu.Lock()
			abandoned := !s.ended && s.state.queries+s.state.syncs > 0
			s.ended = true
			s.mu.Unlock()
			if abandoned {
				s.cancel()
			}
			return
		}
	}
}

// toClient passes on what the database answers, and a sign of life whenever nothing was passed for a while. That
// may only come between messages, so the beginning of a message waits here for its end, unless it is a large one.
func (s *session) toClient() {
	defer s.close()
	b := newBuffer()
	between, passed := true, time.Now() // whether the client is between messages, when it got something
	err := s.server.SetReadDeadline(passed.Add(s.alive))
	for err == nil {
		var n int
		n, err = s.server.Read(b.part[b.held:])
		if n > 0 {
			have := b.held + n
			if !s.note(b.part[b.held:have], &s.down, s.state.answered) {
				return
			}
			count(s.series.fromServer, n)
			whole := s.down.whole(have, len(b.part))
			if whole > 0 {
				passed = time.Now()
				if !s.answer(b.part[:whole], passed) {
					return
				}
			}
			b.keep(whole, have)
			between = b.held > 0 || s.down.between()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			now := time.Now()
			if between && now.Sub(passed) >= s.alive {
				if !s.sign(now) {
					return
				}
				passed = now
			}
			next := passed.Add(s.alive)
			if !next.After(now) {
				next = now.Add(s.alive)
			}
			err = s.server.SetReadDeadline(next)
		}
	}
}

// answer writes a part to the client. It reports false if the session ends.
func (s *session) answer(part []byte, now time.Time) bool {
	_ = s.client.SetWriteDeadline(now.Add(s.writeTime)) // fails only if the client is gone
	if _, err := s.client.Write(part); err != nil {
		return false
	}
	if s.written() {
		s.farewell(s.why)
		return false
	}
	return true
}

// sign writes a sign of life to the client. It reports false if the session ends.
func (s *session) sign(now time.Time) bool {
	s.mu.Lock()
	ended := s.ended
	s.writing = true
	s.mu.Unlock()
	return !ended && s.answer(signOfLife, now)
}

// note notes what a part holds, before it is passed on. It reports false if the session ends instead.
func (s *session) note(part []byte, stream *frames, message func(kind, status byte)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if err := stream.read(part, message); err != nil {
		s.ended = true
		return false
	}
	s.writing = s.writing || stream == &s.down
	return true
}

// written notes that a part has reached the client. It reports whether the session is to end now.
func (s *session) written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	return s.stopping && s.finish()
}

// finish ends a session that is idle, and reports whether it was. mu is held.
func (s *session) finish() bool {
	if s.ended || s.writing || !s.state.idle() || !s.up.between() || !s.down.between() {
		return false
	}
	s.ended = true
	return true
}

// stop ends the session as soon as it is idle.
func (s *session) stop(why *pgproto3.ErrorResponse) {
	s.mu.Lock()
	s.stopping, s.why = true, why
	now := s.finish()
	s.mu.Unlock()
	if now {
		s.farewell(why)
	}
}

// stopIdle ends a session that has been idle since before a time, in ns since 1970.
func (s *session) stopIdle(before int64, why *pgproto3.ErrorResponse) {
	s.mu.Lock()
	now := s.idleSince.Load() < before && s.finish()
	s.mu.Unlock()
	if now {
		s.farewell(why)
	}
}

// farewell says why the session ends, which has ended for both directions, and closes it.
func (s *session) farewell(why *pgproto3.ErrorResponse) {
	_ = s.client.SetWriteDeadline(time.Now().Add(farewellTimeout))
	_ = send(s.client, why) // who is gone needs no reason
	s.close()
}

func count(c prometheus.Counter, n int) { c.Add(float64(n)) }

// sessions are those that are open. It is safe for concurrent use.
type sessions struct {
	mu      sync.Mutex
	open    map[*session]struct{}
	stopped bool
	wg      sync.WaitGroup // of connections, also of those that start
}

// enter counts a connection until leave. It reports false if the server stops.
func (s *sessions) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.wg.Add(1)
	return true
}

func (s *sessions) leave() { s.wg.Done() }

// add adds a session that has started. It reports false if the server stops.
func (s *sessions) add(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.open[one] = struct{}{}
	return true
}

func (s *sessions) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

// all returns the sessions that are open.
func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.open))
	for one := range s.open {
		all = append(all, one)
	}
	return all
}

// stop lets nobody in any more. It ends sessions as soon as they are idle, and all that are left when ctx
// ends. It returns when all have ended.
func (s *sessions) stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	var farewells sync.WaitGroup
	for _, one := range s.all() {
		farewells.Go(func() { one.stop(fatal(codeStopped, "the RPC server stops")) })
	}
	ended := make(chan struct{})
	go func() {
		farewells.Wait()
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		for _, one := range s.all() {
			one.close()
		}
		<-ended
	}
}
