// Package sentry reports errors to Sentry, as the Python scheduler does. It reports each log line at level error,
// each warning with an error, such as an outage's, and the error that ends a command.
//
// An event has the content of the log line and the place in the program. It has no secrets, as the log has none.
package sentry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	sdk "github.com/getsentry/sentry-go"

	"swh-scheduler/internal/service"
)

// flushTime bounds the wait for the last events.
const flushTime = 2 * time.Second

type Options struct {
	DSN         string // "" reports nothing
	Environment string
	Release     string
	Command     string // a tag of each event
	ErrorsOnly  bool   // without log lines that have no error
	Debug       io.Writer
}

// Reporter sends events. The zero value sends none.
type Reporter struct {
	client     *sdk.Client
	command    string
	errorsOnly bool
	seldom     service.LogLimit
}

// New returns a Reporter. Its errors contain no part of the DSN.
func New(o Options) (*Reporter, error) {
	if o.DSN == "" {
		return &Reporter{}, nil
	}
	notDSN := errors.New("is not a DSN of Sentry, such as https://key@sentry.example/1")
	address, err := url.Parse(o.DSN)
	if err != nil || address.User == nil {
		return nil, notDSN
	}
	address.User = url.User(address.User.Username()) // Sentry ignores the secret key, and events would contain it
	client, err := sdk.NewClient(sdk.ClientOptions{
		Dsn: address.String(), Environment: o.Environment, Release: o.Release,
		Debug: o.Debug != nil, DebugWriter: o.Debug,
		DisableTelemetryBuffer: true, // its Close waits for 5 s, and leaves a goroutine, if it misses its own signal: v0.50.0
	})
	if err != nil {
		return nil, notDSN
	}
	return &Reporter{client: client, command: o.Command, errorsOnly: o.ErrorsOnly}, nil
}

// Handler returns a handler that reports lines and passes them to next.
func (r *Reporter) Handler(next slog.Handler) slog.Handler {
	if r.client == nil {
		return next
	}
	return handler{Handler: next, reporter: r}
}

// Unreported returns the handler below a Reporter's.
func Unreported(h slog.Handler) slog.Handler {
	if reported, ok := h.(handler); ok {
		return reported.Handler
	}
	return h
}

// Error reports the error that ended a command.
func (r *Reporter) Error(err error) { r.capture(slog.LevelError, "", err, nil) }

// Close sends the remaining events, for two seconds at most.
func (r *Reporter) Close() {
	if r.client != nil {
		r.client.Flush(flushTime)
		r.client.Close()
	}
}

// capture sends an event, at most once a minute for each message and type of error.
func (r *Reporter) capture(level slog.Level, message string, err error, attributes sdk.Context) {
	if r.client == nil {
		return
	}
	kind := typeOf(err)
	unsent, ok := r.seldom.Log(message + "\n" + kind)
	if !ok {
		return
	}
	event := sdk.NewEvent()
	event.Level, event.Message, event.Logger = sdk.LevelError, message, "swh-scheduler"
	if level < slog.LevelError {
		event.Level = sdk.LevelWarning
	}
	event.Tags["command"] = r.command
	event.Contexts["log"] = attributes
	event.Fingerprint = []string{r.command, message, kind}
	if unsent > 0 {
		event.Contexts["unsent"] = sdk.Context{"events": unsent}
	}
	if err != nil {
		event.Exception = []sdk.Exception{{Type: kind, Value: err.Error(), Stacktrace: sdk.NewStacktrace()}}
	}
	r.client.CaptureEvent(event, nil, nil)
}

// typeOf returns the type of an error's cause.
func typeOf(err error) string {
	if err == nil {
		return ""
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}

// handler reports log lines.
type handler struct {
	slog.Handler
	reporter *Reporter
	prefix   string      // of keys: the open groups
	with     []slog.Attr // of all lines
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	with := append([]slog.Attr{}, h.with...)
	for _, a := range attrs {
		with = append(with, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
	}
	h.with = with
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	h.prefix += name + "."
	return h
}

func (h handler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		h.report(record)
	}
	return h.Handler.Handle(ctx, record)
}

func (h handler) report(record slog.Record) {
	var failure error
	attributes := sdk.Context{}
	add := func(prefix string, a slog.Attr) {
		value := a.Value.Resolve()
		if err, ok := value.Any().(error); ok {
			failure = err
		}
		attributes[prefix+a.Key] = value.String()
	}
	for _, a := range h.with {
		add("", a)
	}
	record.Attrs(func(a slog.Attr) bool { add(h.prefix, a); return true })
	if failure != nil || record.Level >= slog.LevelError && !h.reporter.errorsOnly {
		h.reporter.capture(record.Level, record.Message, failure, attributes)
	}
}
