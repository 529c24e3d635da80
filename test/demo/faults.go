package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// fault is a failure that the demo causes.
type fault struct {
	Name string
	At   time.Time
	Says string // what happened

	cause func() (says string)
}

// faults returns the faults of a run: each kind of daemon is killed, the connections to the broker are cut,
// PostgreSQL crashes.
func (s *story) faults() (faults []fault) {
	if s.Calm {
		return nil
	}
	for _, d := range daemons {
		faults = append(faults, fault{Name: d.name, cause: func() string {
			s.children[d.name].Restart()
			return "killed, and started again"
		}})
	}
	return append(faults, fault{Name: connections, cause: func() string {
		n := s.way.Connections()
		s.way.Cut()
		s.way.Restore()
		return fmt.Sprintf("%d cut", n)
	}}, fault{Name: "PostgreSQL", cause: s.crash})
}

// connections is a fault after which messages may be delivered twice (see evidence.repeats).
const connections = "connections to RabbitMQ"

// quietTime is the time without time-outs of visits before connections are cut: see story.celeryFailed.
const quietTime = 5 * time.Second

// timeFor reports whether a fault may happen now: save code now has been served, and the last fault was at least a
// second ago. Before connections are cut, the visits that a cut must not disturb are over (see world.addRepository).
func (s *story) timeFor(f fault) bool {
	fell := s.evidence.Faults
	if !s.saved() || len(fell) > 0 && time.Since(fell[len(fell)-1].At) < time.Second {
		return false
	}
	if f.Name != connections {
		return true
	}
	timedOut := s.evidence.Queues[slowQueue]
	return s.visited(broken) && (s.visited(slow) || timedOut.Published >= len(s.world.of(slow))) && time.Since(timedOut.Grew) > quietTime
}

func (s *story) fall(f fault) {
	f.At = time.Now()
	f.Says = f.cause()
	s.evidence.Faults = append(s.evidence.Faults, f)
	s.show.note("%s: %s", f.Name, f.Says)
}

// crash kills a process of the scheduler's PostgreSQL, which then closes all connections and recovers, and waits for
// the recovery. If the server isn't the demo's own, it only closes the connections to the demo's database.
func (s *story) crash() (says string) {
	begin := time.Now()
	if s.ownPostgres == "" {
		s.must(onServer(s.ctx, s.scheduler, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"))
		return "its connections ended, as the server isn't the demo's to crash"
	}
	if onServer(s.ctx, s.ownPostgres, "copy (select 1) to program 'kill -9 $PPID'") == nil {
		s.must(errors.New("PostgreSQL survived the death of a process"))
	}
	for onServer(s.ctx, s.ownPostgres, "select 1") != nil {
		select {
		case <-s.ctx.Done():
			s.FailNow()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Sprintf("crashed, and was back after %s", seconds(time.Since(begin)))
}

// onServer executes a statement on a new connection.
func onServer(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
