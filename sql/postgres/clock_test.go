package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// The database's time is known except for the network's part, in which the host's clock decides. The time
// of the statement or of a lock wait has no effect.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const worked, took = 3 * time.Second, 3*time.Second + 200*time.Millisecond
	answered := asked.Add(worked)
	for name, tc := range map[string]struct{ host, want time.Duration }{ // after the answer
		"right":        {host: 50 * time.Millisecond, want: 50 * time.Millisecond},
		"a bit behind": {host: -10 * time.Millisecond},
		"a bit ahead":  {host: 300 * time.Millisecond, want: 200 * time.Millisecond},
		"an hour off":  {host: -time.Hour},
		"a day ahead":  {host: 24 * time.Hour, want: 200 * time.Millisecond},
	} {
		c := clock{host: func() time.Time { return answered.Add(tc.host) }}
		c.set(asked, answered, took)
		if got := c.database.Sub(answered); got != tc.want {
			t.Errorf("%s: %s after the answer, want %s", name, got, tc.want)
		}
	}
}

// The lower bound of the database's time doesn't decrease after a slow answer: an observation between two
// answers would seem to precede the first. It decreases if the database's clock was set back.
func TestLeastTimeGoesBackOnlyWithTheDatabasesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		c := clock{host: time.Now}
		want := func(what string, least time.Time) {
			t.Helper()
			if got := c.leastNow(); !got.Equal(least) {
				t.Errorf("%s: %s, want %s", what, got, least)
			}
		}
		c.set(now, now, 0)
		time.Sleep(10 * time.Millisecond)
		c.set(now.Add(time.Millisecond), now.Add(time.Millisecond), 9*time.Millisecond)
		want("after a slow answer", now.Add(10*time.Millisecond))
		time.Sleep(10 * time.Millisecond)
		c.set(now.Add(20*time.Millisecond), now.Add(20*time.Millisecond), 0)
		want("after a fast answer", now.Add(20*time.Millisecond))
		c.set(now.Add(-time.Second), now.Add(-time.Second), 9*time.Millisecond)
		want("after the clock was set back", now.Add(-time.Second))
	})
}
