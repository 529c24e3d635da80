package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

// inHandAtMost is how many messages one deliverer has in progress (docs/explanation/guarantees.md).
const inHandAtMost = 500

// sentAgain disturbs daemons during deliveries and records which messages may be sent again. These are the outgoing rows
// that the daemons had locked or leased, perhaps sent without a recorded confirmation.
type sentAgain struct {
	t    *testing.T
	conn *pgx.Conn // not through a proxy
	rows map[string]int
	hits int // number of kills and cuts that found such rows

	// history is the history of each message, for the text of a failure.
	history map[string][]string
}

func newSentAgain(t *testing.T, dsn string) *sentAgain {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	return &sentAgain{t: t, conn: conn, rows: map[string]int{}, history: map[string][]string{}}
}

// tell adds to the history of a message.
func (s *sentAgain) tell(id, format string, args ...any) {
	s.history[id] = append(s.history[id], time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// start starts a daemon whose transactions have their own application name.
func (s *sentAgain) start(args ...string) *process {
	s.t.Helper()
	name := fmt.Sprintf("killed-%d", time.Now().UnixNano())
	p := startWith(s.t, []string{"PGAPPNAME=" + name}, args...)
	p.name = name
	return p
}

// lookAgain is how long inHand polls after daemons are stopped: PostgreSQL may still run their last statements and lock
// more rows.
const lookAgain = 300 * time.Millisecond

// freeze stops daemons with SIGSTOP, and returns the rows that they have in progress.
func (s *sentAgain) freeze(daemons ...*process) (inHand map[string]bool) {
	s.t.Helper()
	var names []string
	for _, p := range daemons {
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			s.t.Fatal(err)
		}
		names = append(names, p.name)
	}
	locked, all := map[string]map[string]bool{}, map[string]bool{}
	stopped := time.Now()
	s.await("PostgreSQL has answered the stopped daemons", func() bool {
		s.inHand(names, func(id, daemon string) {
			if locked[daemon] == nil {
				locked[daemon] = map[string]bool{}
			}
			if !locked[daemon][id] {
				s.tell(id, "in hand of %q, stopped at %s", daemon, stopped.Format("05.000"))
			}
			locked[daemon][id], all[id] = true, true
		})
		answered := testenv.Value[bool](s.t, s.conn, `select not exists (select from pg_stat_activity where datname = current_database()
			and application_name = any($1) and state = 'active' and coalesce(wait_event_type, '') not in ('Lock', 'Client'))`, names)
		return answered && time.Since(stopped) > lookAgain
	})
	for _, name := range names {
		if n := len(locked[name]); n > inHandAtMost {
			s.t.Errorf("%s had %d messages in hand, want %d at most", name, n, inHandAtMost)
		}
	}
	return all
}

// inHand calls found for each message that one of some daemons has locked, and, with "", for each leased message.
func (s *sentAgain) inHand(daemons []string, found func(id, daemon string)) {
	s.t.Helper()
	// xmax is the last transaction that locked a row, or a multixact: a journal client may lock a row beside the daemon
	// that sends it. No transaction locks a leased row.
	rows, err := s.conn.Query(s.t.Context(), `select o.task_id::text, coalesce(a.application_name, '') from scheduler_go.work o
		cross join lateral (select array_agg(m.xid) as members from pg_get_multixact_members(case when o.xmax <> '0' and mxid_age(o.xmax) > 0 then o.xmax end) m) lockers
		left join pg_stat_activity a on a.backend_xid = any(o.xmax || lockers.members) and a.datname = current_database() and a.application_name = any($1)
		where o.state = 'outgoing' and (a.application_name is not null or o.not_before > now() and o.last_error is null)`, daemons)
	if err != nil {
		s.t.Fatal(err)
	}
	var id, daemon string
	if _, err := pgx.ForEachRow(rows, []any{&id, &daemon}, func() error {
		found(id, daemon)
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// note adds one allowed repeat for each row in progress.
func (s *sentAgain) note(inHand map[string]bool) {
	for id := range inHand {
		s.rows[id]++
	}
	if len(inHand) > 0 {
		s.hits++
	}
}

// resume continues stopped daemons.
func (s *sentAgain) resume(daemons ...*process) {
	s.t.Helper()
	for _, p := range daemons {
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			s.t.Fatal(err)
		}
	}
}

// kill kills daemons, and returns how many messages they had in progress.
func (s *sentAgain) kill(daemons ...*process) (inHand int) {
	s.t.Helper()
	rows := s.freeze(daemons...)
	s.note(rows)
	for _, p := range daemons {
		if err := p.cmd.Process.Kill(); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, p := range daemons {
		p.wait(s.t)
	}
	return len(rows)
}

// await waits until a condition is true.
func (s *sentAgain) await(what string, until func() bool) {
	s.t.Helper()
	testenv.Becomes(s.t, what, true, until)
}

// waiting returns how many messages that were in progress are outgoing.
func (s *sentAgain) waiting() int {
	s.t.Helper()
	return testenv.Value[int](s.t, s.conn, "select count(*) from scheduler_go.work where state = 'outgoing' and task_id = any($1::uuid[])", slices.Collect(maps.Keys(s.rows)))
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

// cut disconnects daemons from a service for a while.
func (s *sentAgain) cut(service *testenv.Toxic, d time.Duration, daemons ...*process) {
	s.t.Helper()
	s.note(s.freeze(daemons...))
	service.Cut()
	s.resume(daemons...)
	pause(d)
	service.Restore()
}

// check fails if a message was sent more often than allowed, or if fewer than hits kills and cuts met messages in
// progress. It returns the number of repeats.
func (s *sentAgain) check(sent map[string]int, hits int) (again int) {
	s.t.Helper()
	wrong := 0
	for id, n := range sent {
		again += n - 1
		if n <= 1+s.rows[id] {
			continue
		}
		if wrong++; wrong <= 10 {
			s.t.Errorf("message %s was sent %d times; it was in hand at %d kills or cuts:\n%s", id, n, s.rows[id], strings.Join(s.history[id], "\n"))
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

// A locked message is in progress at its daemon, also while a journal client locks it too. A leased one is in progress
// at an unknown daemon.
func TestLockedAndLeasedMessagesAreInProgress(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	conn := testenv.Connect(t, dsn)
	for _, name := range []string{"locked", "locked, then read", "read, then locked", "only read", "locked by another", "leased", "refused", "free"} {
		testenv.Exec(t, conn, `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, claimed, not_before, last_error)
			values (gen_random_uuid(), 'q', $1, '[]', '{}', now(),
				case when $1 in ('leased', 'refused') then now() + interval '1 min' else '-infinity' end, case $1 when 'refused' then 'full' end)`, name)
	}
	session := func(name string) (lock func(message, how string)) {
		conn := testenv.Connect(t, dsn)
		testenv.Exec(t, conn, "select set_config('application_name', $1, false)", name)
		tx := testenv.Begin(t, conn)
		return func(message, how string) {
			t.Helper()
			testenv.Exec(t, tx, "select from scheduler_go.work where task_name = $1 for "+how, message)
		}
	}
	deliverer, other, journal := session("deliverer"), session("other"), session("journal")
	deliverer("locked", "no key update")
	deliverer("locked, then read", "no key update")
	journal("locked, then read", "key share")
	journal("read, then locked", "key share")
	deliverer("read, then locked", "no key update")
	journal("only read", "key share")
	other("locked by another", "no key update")

	got := map[string]string{}
	newSentAgain(t, dsn).inHand([]string{"deliverer"}, func(id, daemon string) {
		got[testenv.Value[string](t, conn, "select task_name from scheduler_go.work where task_id = $1", id)] = daemon
	})
	want := map[string]string{"locked": "deliverer", "locked, then read": "deliverer", "read, then locked": "deliverer", "leased": ""}
	if !maps.Equal(got, want) {
		t.Errorf("in hand are %q, want %q", got, want)
	}
}
