package command

import (
	"testing"
	"time"
)

// Options accept the same durations as the configuration.
func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "2 days": 48 * time.Hour, "36h": 36 * time.Hour, "7 days 02:30:00": 170*time.Hour + 30*time.Minute} {
		var d time.Duration
		if err := Duration(&d).Set(text); err != nil || d != want {
			t.Errorf("%s: got %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "5", "soon", "-1h", "99999999999 days"} {
		var d time.Duration
		if err := Duration(&d).Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, d)
		}
	}
}
