package pytext

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"12 hours": 12 * time.Hour, "12h30m": 12*time.Hour + 30*time.Minute, "7 days": 7 * 24 * time.Hour,
		"1 day 02:03:04.5": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, "02:00": 2 * time.Hour,
		"1 Week, 2 DAYS": 9 * 24 * time.Hour, "1.5h": 90 * time.Minute, ".5 d": 12 * time.Hour, "250ms": 250 * time.Millisecond,
		"0s": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "12", "h", "-1 hour", "1 month", "1 hour x", "02:60", "1 day 02:00 3", "999999999 days", "1e9h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

// A duration is within 0 and the maximum, and means the same in seconds.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"12 hours", "1 day 2:03:04.5", "64 days", "1e9 days", "-1 s", ".5 s", "1:2", "9999999999 weeks"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 || d > MaxDuration {
			t.Errorf("%q: %s", text, d)
		}
		whole := d.Round(time.Second)
		if again, err := ParseDuration(time.Duration(whole).String()); err != nil || again != whole {
			t.Errorf("%q is %s, which is read as %s, %v", text, whole, again, err)
		}
	})
}
