package db

import (
	"testing"
	"time"
)

// The database's time is known but for what the network took; within that a host's clock
// is believed. How long the database worked, or waited for a lock, doesn't matter.
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
