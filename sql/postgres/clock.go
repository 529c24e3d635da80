package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ClockTolerance is how far a host's clock may be from the database's for claims.
const ClockTolerance = 5 * time.Second

// ClockError says that this host's clock is further from the database's than
// ClockTolerance.
type ClockError struct {
	Ahead time.Duration // of the database's clock; negative if it is behind
}

func (e *ClockError) Error() string {
	ahead := "ahead of"
	if e.Ahead < 0 {
		ahead = "behind"
	}
	return fmt.Sprintf("the clock of this host is %s %s the database's: nothing is claimed until they differ by less than %s (set both by NTP)",
		e.Ahead.Abs().Round(100*time.Millisecond), ahead, ClockTolerance)
}

// clock tells the database's time, by which all processes go, whatever their hosts' clocks
// say and however these jump. Between two answers of the database it goes by the monotonic
// clock.
type clock struct {
	host func() time.Time // this host's time

	m               sync.Mutex
	database, local time.Time // the same moment; local has a monotonic reading
	least           time.Time // the database's time at that moment at the least
}

// set notes the database's time. By its clock, a statement came at asked and was answered at
// now; by the host's, the round trip, which has just ended, took took. So the database's time
// is now at the least, and later by what the network took at the most: the host's clock decides
// where between.
func (c *clock) set(asked, now time.Time, took time.Duration) {
	host, network := c.host().Round(0), took-now.Sub(asked)
	if latest := now.Add(network); host.After(latest) {
		host = latest
	}
	if host.Before(now) {
		host = now
	}
	c.m.Lock()
	defer c.m.Unlock()
	least, local := now, time.Now()
	// The bound so far is the better one if this answer was slower than the last. If it is beyond what the network can
	// have taken, the database's clock was set back.
	if before := c.least.Add(local.Sub(c.local)); !c.least.IsZero() && before.After(now) && !before.After(now.Add(network)) {
		least = before
	}
	c.database, c.local, c.least = host, local, least
}

// now returns the host's time until the database has told its own.
func (c *clock) now() time.Time {
	c.m.Lock()
	defer c.m.Unlock()
	if c.database.IsZero() {
		return c.host()
	}
	return c.database.Add(time.Since(c.local))
}

// leastNow returns a lower bound of the database's time; zero until the database has told its time. Whatever the
// host's clock says has no part in it.
func (c *clock) leastNow() time.Time {
	c.m.Lock()
	defer c.m.Unlock()
	if c.least.IsZero() {
		return time.Time{}
	}
	return c.least.Add(time.Since(c.local))
}

// ahead returns how far the host's clock is ahead of the database's.
func (c *clock) ahead() time.Duration { return c.host().Round(0).Sub(c.now()) } // Round drops the monotonic reading

func (c *clock) check() error {
	if d := c.ahead(); d.Abs() > ClockTolerance {
		return &ClockError{Ahead: d}
	}
	return nil
}

// Now returns the time by the database's clock, as of the last claim or CheckVersion.
func (d *DB) Now() time.Time { return d.clock.now() }

// LeastNow returns a lower bound of the database's time: what the last claim or CheckVersion was told, and the
// monotonic time since then. It is zero before both.
func (d *DB) LeastNow() time.Time { return d.clock.leastNow() }

// LeastNow is DB.LeastNow.
func (tx *Tx) LeastNow() time.Time { return tx.clock.leastNow() }

// LearnTime asks for the database's time, unless it is known.
func (d *DB) LearnTime(ctx context.Context) error {
	if !d.clock.leastNow().IsZero() {
		return nil
	}
	return d.AskTime(ctx)
}

// AskTime asks for the database's time.
func (d *DB) AskTime(ctx context.Context) error {
	began := time.Now()
	var asked, now time.Time
	if err := d.pool.QueryRow(ctx, "select statement_timestamp(), clock_timestamp()").Scan(&asked, &now); err != nil {
		return err
	}
	d.clock.set(asked, now, time.Since(began))
	return nil
}

// NoteTime notes the database's time: by its clock, a statement came at asked and was answered at now, and its
// round trip, which has just ended, took took. It returns a ClockError if the host's clock is too far from it.
func (tx *Tx) NoteTime(asked, now time.Time, took time.Duration) error {
	tx.clock.set(asked, now, took)
	return tx.clock.check()
}

// Now is DB.Now.
func (tx *Tx) Now() time.Time { return tx.clock.now() }

// ClockAhead returns how far this host's clock is ahead of the database's.
func (d *DB) ClockAhead() time.Duration { return d.clock.ahead() }
