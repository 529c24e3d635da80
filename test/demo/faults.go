package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fault is what falls on the scheduler, midway.
type fault struct {
	Name string
	At   time.Time
	Says string // what became of it

	cause func(context.Context) (says string, err error)
}

// faults are those of a run: each kind of daemon is killed, the broker's connections are cut,
// PostgreSQL crashes.
func (s *story) faults() []fault {
	if s.Calm {
		return nil
	}
	var faults []fault
	for _, d := range daemons {
		faults = append(faults, fault{Name: d.name, cause: func(context.Context) (string, error) {
			return "killed, and started again", s.processes.restart(d.name)
		}})
	}
	return append(faults, fault{Name: connections, cause: func(ctx context.Context) (string, error) {
		n, err := s.resources.cut(ctx)
		return fmt.Sprintf("%d cut", n), err
	}}, fault{Name: "PostgreSQL", cause: s.resources.crash})
}

// connections is a fault after which messages may be delivered twice (see evidence.repeats).
const connections = "connections to RabbitMQ"

// timeFor reports whether a fault may fall: save code now is served, the fault before was a
// second ago, and connections are cut when no visit is left that must not meet that (see
// world.addRepository).
func (s *story) timeFor(f fault) bool {
	fell := s.evidence.Faults
	if !s.saved() || len(fell) > 0 && time.Since(fell[len(fell)-1].At) < time.Second {
		return false
	}
	return f.Name != connections ||
		s.visited(broken) && (s.visited(slow) || s.broker.look()[slowQueue].Published >= len(s.world.of(slow)))
}

func (s *story) fall(ctx context.Context, f fault) (err error) {
	f.At = time.Now()
	if f.Says, err = f.cause(ctx); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	s.evidence.Faults = append(s.evidence.Faults, f)
	s.show.note("%s: %s", f.Name, f.Says)
	return nil
}

// crash kills a process of the scheduler's PostgreSQL, which then ends all connections,
// recovers and starts anew, and waits until it has. A server that isn't the demo's only loses the
// connections to the demo's database.
func (r *resources) crash(ctx context.Context) (says string, err error) {
	begin := time.Now()
	if !r.ownServer {
		return "its connections ended, as the server isn't the demo's to crash",
			asSuperuser(ctx, r.scheduler.server, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", r.name)
	}
	if asSuperuser(ctx, r.scheduler.server, "copy (select 1) to program 'kill -9 $PPID'") == nil {
		return "", errors.New("it survived the death of a process")
	}
	for asSuperuser(ctx, r.scheduler.server, "select 1") != nil {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Sprintf("crashed, and was back after %s", seconds(time.Since(begin))), nil
}
