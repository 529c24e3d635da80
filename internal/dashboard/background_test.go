package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A value that was read long ago, without readers or with failed readings, is not shown as current.
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

// The first reader after a pause receives a current value, not the last one. If reading takes long, the page doesn't
// wait for it.
func TestFirstReaderAfterAPauseGetsNewFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, takes := 0, 10*time.Millisecond
		b := background[int]{log: slog.New(slog.DiscardHandler), every: 5 * time.Second, wait: 2 * time.Second, read: func(context.Context) (int, error) {
			time.Sleep(takes)
			n++
			return n, nil
		}}
		get := func(want int, atMost time.Duration) {
			t.Helper()
			began := time.Now()
			if got, _, err := b.get(t.Context()); got != want || err != nil || time.Since(began) > atMost {
				t.Errorf("%d, %v after %s, want %d", got, err, time.Since(began), want)
			}
		}
		get(1, takes)
		time.Sleep(6 * time.Second) // a reader every few seconds: nobody waits
		get(1, 0)
		time.Sleep(2 * takes)
		get(2, 0)
		time.Sleep(time.Minute)
		get(3, takes)
		takes = 10 * time.Second
		time.Sleep(time.Minute)
		get(3, freshWait)
		time.Sleep(8 * time.Second) // the background knows the duration of a reading
		get(3, 0)
		time.Sleep(takes)
		synctest.Wait()
		time.Sleep(takes)
	})
}

// If a broker falls silent, older values are marked as old within seconds. Soon after it answers again they aren't: a
// reading that hangs is cancelled.
func TestReadingsOfASilentBrokerAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		b := background[int]{name: "The queues", log: slog.New(slog.DiscardHandler), every: 5 * time.Second, wait: 2 * time.Second, read: func(ctx context.Context) (int, error) {
			if silent.Load() {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 1, nil
		}}
		d := &Dashboard{Options: Options{Log: slog.New(slog.DiscardHandler)}}
		marked := func() bool {
			_, p := b.part(t.Context(), d)
			synctest.Wait()
			_, p = b.part(t.Context(), d)
			return p.Problem != ""
		}
		for range 10 {
			if time.Sleep(time.Second); marked() {
				t.Fatal("a fresh reading is marked as old")
			}
		}
		silent.Store(true)
		fell := time.Now()
		for !marked() {
			time.Sleep(time.Second)
		}
		if took := time.Since(fell); took > 12*time.Second {
			t.Errorf("an old reading stood unmarked for %s", took)
		}
		time.Sleep(100 * time.Second)
		marked()
		time.Sleep(time.Second)
		silent.Store(false) // readings that hang already don't end
		back := time.Now()
		for marked() {
			time.Sleep(time.Second)
		}
		if took := time.Since(back); took > 30*time.Second {
			t.Errorf("the mark stayed for %s after the broker answered again", took)
		}
		synctest.Wait()
	})
}
