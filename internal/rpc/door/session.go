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

// session is a connection after its start, which passes messages through.
type session struct {
	client, server net.Conn
	series         *series
	writeTime      time.Duration // time limit of a client to read a part of an answer
	alive          time.Duration // silence after which a client gets a keepalive message
	recovered      func()        // deferred: recovers from a panic
	cancel         func()        // makes the database cancel the running statement
	who            Visitor
	daemon         string      // daemon whose role it uses; "": the common role
	denied         atomic.Bool // it must end, as its client is no longer permitted

	mu       sync.Mutex
	state    state
	up, down frames                  // to the server, to the client
	writing  bool                    // a part is being written to the client
	stopping bool                    // it ends once it is idle
	why      *pgproto3.ErrorResponse // it is stopping
	ended    bool                    // nothing more is passed

	idleSince atomic.Int64 // when the client last sent a message, in ns since 1970
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

// close closes both connections. The database rolls back open transactions.
func (s *session) close() {
	s.closing.Do(func() {
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// toServer passes on the client's messages. If the client disconnects during a statement, toServer cancels the
// statement: the database would detect that only at its next answer.
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

// toClient passes on the database's answers, and a keepalive message after each period of silence. A keepalive may
// only come between messages, so the beginning of a message is held back until its end, unless the message is large.
func (s *session) toClient() {
	defer s.close()
	b := newBuffer()
	between, passed := true, time.Now() // whether the client is between messages, and the time of the last write to it
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
			b.keep(whole, have, s.down.between())
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

// answer writes a part to the client. It returns false if the session ends.
func (s *session) answer(part []byte, now time.Time) bool {
	_ = s.client.SetWriteDeadline(now.Add(s.writeTime)) // fails only if the client has disconnected
	if _, err := s.client.Write(part); err != nil {
		return false
	}
	if s.written() {
		s.farewell(s.why)
		return false
	}
	return true
}

// sign writes a keepalive message to the client. It returns false if the session ends.
func (s *session) sign(now time.Time) bool {
	s.mu.Lock()
	ended := s.ended
	s.writing = true
	s.mu.Unlock()
	return !ended && s.answer(signOfLife, now)
}

// note records the messages of a part before it is passed on. It returns false if the session ends instead.
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

// written records that a part has reached the client. It reports whether the session must end now.
func (s *session) written() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	return s.stopping && s.finish()
}

// finish ends an idle session, and reports whether it was idle. The caller holds mu.
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

// farewell sends the reason to the client of a session that has ended in both directions, and closes the session.
func (s *session) farewell(why *pgproto3.ErrorResponse) {
	_ = s.client.SetWriteDeadline(time.Now().Add(farewellTimeout))
	_ = send(s.client, why) // fails if the client has disconnected
	s.close()
}

func count(c prometheus.Counter, n int) { c.Add(float64(n)) }

// sessions are the open sessions. It is safe for concurrent use.
type sessions struct {
	mu      sync.Mutex
	open    map[*session]struct{}
	stopped bool
	wg      sync.WaitGroup // of connections, also of those that start
}

// enter counts a connection until leave. It returns false if the server stops.
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

// add adds a session that has started. It returns false if the server stops.
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

// stop refuses new connections. It ends sessions as soon as they are idle, and all that are left when ctx ends. It
// returns when all have ended.
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
