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
// its service is away, and stuck while one round lasts too long.
func TestHealthOfALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		ctx, stop := context.WithCancel(WithHealth(t.Context(), health))
		round := make(chan error)
		loop := Loop{
			RunOnce: func(context.Context) (Result, error) { return Result{}, <-round },
			Period:  time.Second,
			Service: NewService(slog.New(slog.DiscardHandler), "PostgreSQL"),
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
		want("before the first round", health.Waits(), "waiting for a first round with PostgreSQL")
		round <- errors.New("away")
		synctest.Wait()
		if waits := health.Waits(); len(waits) != 2 || !strings.Contains(waits[0], "PostgreSQL, which cannot be reached since 2000-01-01T00:00:00Z") {
			t.Errorf("while it is away: %q", waits)
		}
		round <- nil // after the back-off
		synctest.Wait()
		want("after a good round", health.Waits())
		time.Sleep(time.Minute) // in the next round
		want("a long round", health.Stuck())
		time.Sleep(stuckAfter)
		if stuck := health.Stuck(); len(stuck) != 1 || !strings.Contains(stuck[0], "a round with PostgreSQL lasts since") {
			t.Errorf("too long a round: %q", stuck)
		}
		want("and still", health.Waits())
		round <- nil
		synctest.Wait()
		want("when it is over", health.Stuck())
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// systemd hears that the daemon starts, what it waits for, that it is ready, that
// it lives and that it stops.
func TestSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "2000000")
	health := NewHealth()
	met := health.Expect("PostgreSQL")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Systemd(ctx, health, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	hear := func(want string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for heard := ""; heard != want; {
			buffer := make([]byte, 4096)
			n, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("%q is not told: %v", want, err)
			}
			heard = string(buffer[:n])
			if heard == "READY=1" && want != "READY=1" {
				t.Fatalf("ready before %q", want)
			}
		}
	}
	hear("STATUS=starting")
	hear("STATUS=waiting for PostgreSQL")
	hear("WATCHDOG=1")
	met()
	hear("READY=1")
	hear("STATUS=working")
	stop()
	hear("STOPPING=1")
	<-ended
}
