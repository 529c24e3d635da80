package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func logTo(buf *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(buf, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// A service that is away for long must not fill the log.
func TestServiceLogsOneLineForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		s := NewService(logTo(&buf), "PostgreSQL")
		s.OK()
		s.Failed(errors.New("connection refused"))
		time.Sleep(12 * time.Second)
		s.Failed(errors.New("starting up"))
		s.OK()
		s.OK()
		s.Failed(errors.New("gone"))
		want := `level=WARN msg="PostgreSQL is not reachable; retrying" error="connection refused"
level=DEBUG msg="PostgreSQL is still not reachable" error="starting up"
level=INFO msg="PostgreSQL is back" after=12s
level=WARN msg="PostgreSQL is not reachable; retrying" error=gone
`
		if got := buf.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestServiceIsSafeForConcurrentUse(t *testing.T) {
	var buf bytes.Buffer
	s := NewService(logTo(&buf), "RabbitMQ")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s.Failed(errors.New("away"))
				s.OK()
			}
		})
	}
	wg.Wait()
	if away, back := strings.Count(buf.String(), "retrying"), strings.Count(buf.String(), "is back"); away != back {
		t.Errorf("logged %d times away and %d times back", away, back)
	}
}
