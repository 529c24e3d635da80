package sentry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// received is a Sentry server that records requests.
type received struct {
	*httptest.Server
	m        sync.Mutex
	requests []string // headers and bodies
	events   []event
}

type event struct {
	Message, Level, Release, Environment string
	Tags                                 map[string]string
	Exception                            []struct{ Type, Value string }
	Contexts                             map[string]map[string]any
}

func listen(t *testing.T) *received {
	r := &received{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.m.Lock()
		defer r.m.Unlock()
		r.requests = append(r.requests, fmt.Sprint(request.URL, request.Header)+string(body))
		var e event
		if lines := bytes.Split(body, []byte("\n")); json.Unmarshal(lines[min(2, len(lines)-1)], &e) == nil {
			r.events = append(r.events, e)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *received) dsn() string {
	return strings.Replace(r.URL, "//", "//key:s3cret@", 1) + "/1"
}

// Error lines of the log are events with the line's content, at most once a minute each. Lines of lower levels
// aren't.
func TestErrorsOfTheLogAreReported(t *testing.T) {
	t.Parallel()
	server := listen(t)
	r, err := New(Options{DSN: server.dsn(), Release: "swh-scheduler@1.2.3", Environment: "staging", Command: "swh-scheduler start-runner"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	log := slog.New(r.Handler(slog.NewTextHandler(&text, nil)))
	log.Debug("too quiet", "error", fs.ErrClosed)
	log.Info("started")
	log.Warn("an odd key", "key", "x")
	log.Warn("PostgreSQL is not reachable", "error", fmt.Errorf("ask: %w", &fs.PathError{Op: "connect", Path: "/", Err: fs.ErrClosed}))
	for range 3 {
		log.With("a", 1).WithGroup("g").Error("call failed", "endpoint", "x", slog.Group("caller", "address", "y"))
	}
	r.Error(errors.New("no such thing"))
	r.Close()
	if strings.Count(text.String(), "call failed") != 3 || strings.Count(text.String(), "\n") != 6 {
		t.Errorf("the log:\n%s", &text)
	}
	if len(server.events) != 3 {
		t.Fatalf("%d events: %s", len(server.events), server.requests)
	}
	for i, want := range []event{
		{Message: "PostgreSQL is not reachable", Level: "warning"}, {Message: "call failed", Level: "error"}, {Level: "error"},
	} {
		e := server.events[i]
		if e.Message != want.Message || e.Level != want.Level || e.Release != "swh-scheduler@1.2.3" || e.Environment != "staging" || e.Tags["command"] != "swh-scheduler start-runner" {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	if got := fmt.Sprint(server.events[0].Exception, server.events[1].Exception, server.events[2].Exception); got != "[{*errors.errorString ask: connect /: file already closed}] [] [{*errors.errorString no such thing}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(server.events[1].Contexts["log"]); got != "map[a:1 g.caller:[address=y] g.endpoint:x]" {
		t.Error(got)
	}
	for _, request := range server.requests {
		if strings.Contains(request, "s3cret") {
			t.Errorf("a request has the DSN's secret:\n%s", request)
		}
	}
}

// An event has the text of an error without those of the errors that it wraps, as the log removes passwords from
// them.
func TestEventsHaveNoMoreThanTheLog(t *testing.T) {
	t.Parallel()
	server := listen(t)
	r, err := New(Options{DSN: server.dsn(), ErrorsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(r.Handler(slog.DiscardHandler))
	if log.Enabled(t.Context(), slog.LevelError) {
		t.Error("a log that is off is on")
	}
	log = slog.New(r.Handler(slog.NewTextHandler(io.Discard, nil)))
	log.Error("away", "error", hiding{errors.New("postgresql://u:s3cret@h/")}, "dsn", secret("s3cret"))
	log.Error("no error")
	r.Close()
	if len(server.events) != 1 || strings.Contains(fmt.Sprint(server.requests), "s3cret") {
		t.Errorf("%s", server.requests)
	}
}

type hiding struct{ error }

func (h hiding) Error() string { return "hidden" }
func (h hiding) Unwrap() error { return h.error }

type secret string

func (s secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func TestNoSentry(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"s3cret", "https://sentry.example/s3cret", "https://s3cret@sentry.example/", "ftp://s3cret@h/1", "https://s3cret@h:x/1"} {
		if _, err := New(Options{DSN: dsn}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler := slog.NewTextHandler(io.Discard, nil)
	if r.Handler(handler) != slog.Handler(handler) {
		t.Error("a log that is not reported is wrapped")
	}
	r.Error(errors.New("x"))
	r.Close()
}
