package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ClockTolerance is the greatest difference between a host's clock and the database's for claims.
const ClockTolerance = 5 * time.Second

// ClockError reports that this host's clock differs from the database's by more than ClockTolerance.
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

// clock returns the database's time, which all processes use, with any error or jump of their hosts'
// clocks. Between two readings from the database it advances by the monotonic clock.
type clock struct {
	host func() time.Time // this host's time

	m               sync.Mutex
	database, local time.Time // the same moment; local has a monotonic reading
	least           time.Time // a lower bound of the database's time at that moment
}

// set records the database's time. By the database's clock, a statement arrived at asked and was answered
// at now. By the host's clock, the round trip has just ended and took took. So the database's time is at
// least now, and later by at most the network's part of took. The host's clock decides within these bounds.
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
	// If this answer was slower than the last, the earlier bound is better. If the earlier bound is beyond
	// the network's part, the database's clock was set back.
	if before := c.least.Add(local.Sub(c.local)); !c.least.IsZero() && before.After(now) && !before.After(now.Add(network)) {
		least = before
	}
	c.database, c.local, c.least = host, local, least
}

// now returns the database's time, or the host's time before the first reading.
func (c *clock) now() time.Time {
	c.m.Lock()
	defer c.m.Unlock()
	if c.database.IsZero() {
		return c.host()
	}
	return c.database.Add(time.Since(c.local))
}

// leastNow returns a lower bound of the database's time; zero before the first reading. It doesn't depend
// on the host's clock.
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

// Now returns the time by the database's clock, by the last claim or CheckVersion.
func (d *DB) Now() time.Time { return d.clock.now() }

// LeastNow returns a lower bound of the database's time: the reading of the last claim or CheckVersion, and
// the monotonic time since. It is zero before both.
func (d *DB) LeastNow() time.Time { return d.clock.leastNow() }

// LeastNow is DB.LeastNow.
func (tx *Tx) LeastNow() time.Time { return tx.clock.leastNow() }

// EnsureTime reads the database's time, unless it is known.
func (d *DB) EnsureTime(ctx context.Context) error {
	if !d.clock.leastNow().IsZero() {
		return nil
	}
	return d.ReadTime(ctx)
}

// ReadTime reads the database's time.
func (d *DB) ReadTime(ctx context.Context) error {
	began := time.Now()
	var asked, now time.Time
	if err := d.pool.QueryRow(ctx, "select statement_timestamp(), clock_timestamp()").Scan(&asked, &now); err != nil {
		return err
	}
	d.clock.set(asked, now, time.Since(began))
	return nil
}

// RecordTime records the database's time. By the database's clock, a statement arrived at asked and was answered
// at now. Call it at the end of the round trip, which took took. It returns a ClockError if the host's clock
// differs too much.
func (tx *Tx) RecordTime(asked, now time.Time, took time.Duration) error {
	tx.clock.set(asked, now, took)
	return tx.clock.check()
}

// Now is DB.Now.
func (tx *Tx) Now() time.Time { return tx.clock.now() }

// ClockAhead returns how far this host's clock is ahead of the database's.
func (d *DB) ClockAhead() time.Duration { return d.clock.ahead() }
