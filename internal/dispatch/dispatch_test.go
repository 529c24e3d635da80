package dispatch

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Free slots are the limit minus outgoing messages and those at the broker, at least 0 and at most one claim's
// size.
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

// The delay of a message that is refused repeatedly doubles, up to an hour.
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
