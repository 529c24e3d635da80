package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

// inHandAtMost is how many messages one deliverer has in hand, as docs/architecture.md
// says.
const inHandAtMost = 500

// sentAgain disturbs daemons while they deliver, and keeps account of what may be sent
// again for it: the rows of the outbox that they had locked, which they may have sent
// and have not deleted.
type sentAgain struct {
	t    *testing.T
	conn *pgx.Conn // not through a proxy
	rows map[string]int
	hits int // kills and cuts of which there were such rows
}

func newSentAgain(t *testing.T, dsn string) *sentAgain {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &sentAgain{t: t, conn: conn, rows: map[string]int{}}
}

// start starts a daemon whose transactions can be told from others'.
func (s *sentAgain) start(args ...string) *process {
	s.t.Helper()
	name := fmt.Sprintf("killed-%d", time.Now().UnixNano())
	p := startWith(s.t, []string{"PGAPPNAME=" + name}, args...)
	p.name = name
	return p
}

// freeze stops daemons where they are and notes which rows each has locked. It returns
// how many these are.
func (s *sentAgain) freeze(daemons ...*process) (inHand int) {
	s.t.Helper()
	for _, p := range daemons {
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range daemons {
		s.settled(p)
		// xmax is the transaction that has locked a row last.
		rows, err := s.conn.Query(s.t.Context(), `select o.task_id::text from scheduler_go.work o join pg_stat_activity a on a.backend_xid = o.xmax
			where o.state = 'outgoing' and a.datname = current_database() and a.application_name = $1`, p.name)
		if err != nil {
			s.t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			s.t.Fatal(err)
		}
		if len(ids) > inHandAtMost {
			s.t.Errorf("%q had %d messages in hand, want %d at most", p.cmd.Args, len(ids), inHandAtMost)
		}
		for _, id := range ids {
			s.rows[id]++
		}
		inHand += len(ids)
	}
	if inHand > 0 {
		s.hits++
	}
	return inHand
}

// settled waits until PostgreSQL has done what a stopped daemon has asked for: until
// then it may lock more rows, and tell the daemon of them.
func (s *sentAgain) settled(p *process) {
	s.t.Helper()
	s.await("PostgreSQL has answered "+p.name, func() (idle bool) {
		if err := s.conn.QueryRow(s.t.Context(), `select not exists (select from pg_stat_activity where datname = current_database()
			and application_name = $1 and state = 'active' and coalesce(wait_event_type, '') not in ('Lock', 'Client'))`, p.name).Scan(&idle); err != nil {
			s.t.Fatal(err)
		}
		return idle
	})
}

// kill kills daemons, and returns how many messages they had in hand.
func (s *sentAgain) kill(daemons ...*process) (inHand int) {
	s.t.Helper()
	inHand = s.freeze(daemons...)
	for _, p := range daemons {
		if err := p.cmd.Process.Kill(); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range daemons {
		p.wait(s.t)
	}
	return inHand
}

// await waits until a condition is true.
func (s *sentAgain) await(what string, until func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !until(); pause(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %s until %s", patience, what)
		}
	}
}

// waiting is how many of the messages that were in hand are in the outbox.
func (s *sentAgain) waiting() (n int) {
	s.t.Helper()
	if err := s.conn.QueryRow(s.t.Context(), "select count(*) from scheduler_go.work where state = 'outgoing' and task_id = any($1::uuid[])", slices.Collect(maps.Keys(s.rows))).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// cut cuts daemons off from a service for a while.
func (s *sentAgain) cut(service *testenv.Toxic, d time.Duration, daemons ...*process) {
	s.t.Helper()
	s.freeze(daemons...)
	service.Cut()
	for _, p := range daemons {
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			s.t.Fatal(err)
		}
	}
	pause(d)
	service.Restore()
}

// check compares how often each message was sent with how often it may have been, and
// fails unless so many of the kills and cuts hit work in hand.
func (s *sentAgain) check(sent map[string]int, hits int) (again int) {
	s.t.Helper()
	wrong := 0
	for id, n := range sent {
		again += n - 1
		if n <= 1+s.rows[id] {
			continue
		}
		if wrong++; wrong <= 10 {
			s.t.Errorf("message %s was sent %d times; it was in hand at %d kills or cuts", id, n, s.rows[id])
		}
	}
	if wrong > 10 {
		s.t.Errorf("and %d messages more", wrong-10)
	}
	if s.hits < hits {
		s.t.Errorf("%d kills and cuts hit work in hand, want %d at least", s.hits, hits)
	}
	return again
}
