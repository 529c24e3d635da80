package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// What was read long ago, as nobody looked or as it can't be read, is not shown as what is now.
func TestOldReadings(t *testing.T) {
	t.Parallel()
	n := 0
	var away error
	b := background[int]{log: slog.New(slog.DiscardHandler), every: time.Nanosecond, wait: time.Minute, read: func(context.Context) (int, error) {
		n++
		return n, away
	}}
	long := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.at, b.tried = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
	}
	for want := 1; want <= 2; want++ {
		if got, err := b.must(t.Context()); got != want || err != nil {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
		long()
	}
	away = errors.New("away")
	if got, err := b.must(t.Context()); got != 0 || !errors.Is(err, away) {
		t.Errorf("%d, %v, want nothing of an hour ago", got, err)
	}
}
