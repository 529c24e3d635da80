package dispatch

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is free is the limit less what is underway and what the broker holds,
// never below none and never above one claim's worth.
func TestFreeSlots(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int64
		held  int
		want  int
	}{
		"empty":               {1000, 0, 1000},
		"partly full":         {1000, 400, 600},
		"full":                {1000, 1000, 0},
		"over-full":           {1000, 2000, 0},
		"never above a claim": {50000, 0, MaxClaim},
		"large and nearly so": {50000, 49999, 1},
		"beyond 32 bits":      {1 << 40, 1 << 30, MaxClaim},
	} {
		t.Run(name, func(t *testing.T) {
			if got := freeSlots(tc.limit, tc.held); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// A message that keeps being refused is tried ever less often, but at least
// once an hour.
func TestRetryDelayDoublesUpToAnHour(t *testing.T) {
	want := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}
	for attempts, delay := range want {
		if got := retryDelay(int32(attempts)); got != delay {
			t.Errorf("after %d attempts: %s, want %s", attempts, got, delay)
		}
	}
	if got := retryDelay(1 << 30); got != time.Hour {
		t.Errorf("after very many attempts: %s", got)
	}
}
