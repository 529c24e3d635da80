package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A loop's daemon is ready after the first round that went well, not ready while
// rounds fail, and stuck while one round lasts too long.
func TestHealthOfALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		ctx, stop := context.WithCancel(WithHealth(t.Context(), health))
		round := make(chan error)
		loop := Loop{
			Name: "claiming tasks", Log: slog.New(slog.DiscardHandler),
			RunOnce: func(context.Context) (Result, error) { return Result{}, <-round },
			Period:  time.Second,
		}
		ended := make(chan error)
		go func() { ended <- loop.Run(ctx) }()
		synctest.Wait()
		want := func(what string, got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		want("before the first round", health.NotReady(), "waiting for a first good round of claiming tasks")
		round <- errors.New("away")
		synctest.Wait()
		want("when it has failed", health.NotReady(), "claiming tasks has failed since 2000-01-01T00:00:00Z", "waiting for a first good round of claiming tasks")
		round <- nil // after the back-off
		synctest.Wait()
		want("after a good round", health.NotReady())
		time.Sleep(time.Minute) // in the next round
		want("a long round", health.StuckLoops())
		time.Sleep(stuckAfter)
		if stuck := health.StuckLoops(); len(stuck) != 1 || !strings.Contains(stuck[0], "a round of claiming tasks lasts since") {
			t.Errorf("too long a round: %q", stuck)
		}
		want("and still", health.NotReady())
		round <- nil
		synctest.Wait()
		want("when it is over", health.StuckLoops())
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// systemd hears that the daemon starts, what it waits for, that it is ready, that
// it lives and that it stops.
func TestSystemd(t *testing.T) {
	health := NewHealth()
	met := health.Expect("PostgreSQL")
	hear, stop := systemd(t, health)
	hear("STATUS=starting", "READY=1")
	hear("STATUS=waiting for PostgreSQL", "READY=1")
	hear("WATCHDOG=1", "READY=1")
	met()
	hear("READY=1", "")
	hear("STATUS=working", "READY=1")
	stop()
	hear("STOPPING=1", "READY=1")
}

// A daemon that is stuck doesn't say that it lives, so that systemd restarts it.
func TestStuckDaemonDoesNotFeedTheWatchdog(t *testing.T) {
	health := NewHealth()
	pulse := health.Pulse(slog.New(slog.DiscardHandler), "a loop")
	began := time.Now().Add(-2 * stuckAfter)
	health.now = func() time.Time { return began }
	pulse.Begin()
	health.now = time.Now
	hear, stop := systemd(t, health)
	hear("STATUS=working", "WATCHDOG=1")
	health.Expect("what it hears a second later")
	hear("STATUS=waiting for what it hears a second later", "WATCHDOG=1")
	pulse.Done(0)
	hear("WATCHDOG=1", "")
	stop()
}

// systemd runs Systemd until stop. hear waits until it has said want, which not must not
// come before.
func systemd(t *testing.T, health *Health) (hear func(want, not string), stop func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "2000000")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Systemd(ctx, health, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return func(want, not string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for heard := ""; heard != want; {
			buffer := make([]byte, 4096)
			n, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("%q is not told: %v", want, err)
			}
			if heard = string(buffer[:n]); heard == not {
				t.Fatalf("%q before %q", not, want)
			}
		}
	}, stop
}
