package celery_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
)

// A real worker runs what we send, both serialisations of it, and tells so in
// events that we read.
func TestWorkerRunsOurMessagesAndWeReadItsEvents(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	b := broker(t, env.URL)

	deliveries := make(chan celery.Delivery)
	runConsumer(t, b, celery.ConsumerOptions{Queue: "celeryev.test", Bindings: []celery.Binding{celery.EventsBinding}}, deliveries)

	queues := []string{"swh.test.Echo", "swh.test.Fail", "swh.test.Retry", "swh.test.Reject"}
	w := startWorker(t, env.URL, queues)
	p := publisher(t, b, celery.PublisherOptions{})
	send := func(m celery.TaskMessage) string {
		t.Helper()
		m.ID, m.Queue = uuid.NewString(), m.Name
		if strings.HasSuffix(m.Queue, "Unknown") {
			m.Queue = "swh.test.Echo"
		}
		if err := p.DeclareQueue(ctx, m.Queue); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Publish(ctx, []celery.TaskMessage{m})...); err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	args, kwargs := []byte(`["é", 1180591620717411303424, 1.5]`), []byte(`{"k": null}`)
	echo := send(celery.TaskMessage{Name: "swh.test.Echo", Args: args, Kwargs: kwargs})
	packed := send(celery.TaskMessage{Name: "swh.test.Echo", Args: []byte(`["é", 1.5]`), Serializer: celery.Msgpack})
	fail := send(celery.TaskMessage{Name: "swh.test.Fail"})
	retry := send(celery.TaskMessage{Name: "swh.test.Retry"})
	reject := send(celery.TaskMessage{Name: "swh.test.Reject"})
	expired := send(celery.TaskMessage{Name: "swh.test.Echo", Expires: time.Now().Add(time.Hour), Args: []byte(`["in time"]`)})
	unknown := send(celery.TaskMessage{Name: "swh.test.Unknown"})

	want := map[string][]string{
		echo:    {"task-received", "task-started", "task-result", "task-succeeded"},
		packed:  {"task-received", "task-started", "task-result", "task-succeeded"},
		fail:    {"task-received", "task-started", "task-failed"},
		retry:   {"task-received", "task-started", "task-retried", "task-succeeded", "task-result"},
		reject:  {"task-received", "task-started", "task-rejected"},
		expired: {"task-received", "task-started", "task-result", "task-succeeded"},
		unknown: {"task-failed"},
	}
	seen := map[string]map[string]celery.Event{}
	missing := func() (left []string) {
		for id, types := range want {
			for _, eventType := range types {
				if _, ok := seen[id][eventType]; !ok {
					left = append(left, eventType+" of "+id)
				}
			}
		}
		return left
	}
	workers := map[string]bool{}
	for len(missing()) > 0 {
		select {
		case d := <-deliveries:
			if *capture {
				captureEvents(t, d.Body)
			}
			events, err := celery.DecodeEvents(d.Body, d.ContentType)
			if err != nil {
				t.Fatalf("%v: %s", err, d.Body)
			}
			for _, e := range events {
				if seen[e.UUID] == nil {
					seen[e.UUID] = map[string]celery.Event{}
				}
				seen[e.UUID][e.Type] = e
				payload, err := e.Decode()
				if err != nil {
					t.Errorf("%v: %s", err, d.Body)
				}
				if _, same := payload.(celery.Event); same {
					t.Errorf("%s has no type of its own", e.Type)
				}
				if h, ok := payload.(celery.WorkerHeartbeat); ok {
					workers[h.Hostname] = true
				}
			}
		case <-ctx.Done():
			t.Fatalf("still missing: %v\n%s", missing(), w.log)
		}
	}

	decoded := func(id, eventType string) any {
		t.Helper()
		payload, err := seen[id][eventType].Decode()
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	if r := decoded(echo, "task-result").(celery.TaskResult); !sameJSON(r.Result,
		`{"status": "success", "eventful": true, "args": ["é", 1180591620717411303424, 1.5], "kwargs": {"k": null}}`) {
		t.Errorf("the worker got other arguments: %s", r.Result)
	}
	if s := decoded(echo, "task-succeeded").(celery.TaskSucceeded); s.Runtime <= 0 || s.UUID != echo || s.Hostname != w.node {
		t.Errorf("%+v", s)
	}
	if r := decoded(echo, "task-received").(celery.TaskReceived); r.Name != "swh.test.Echo" ||
		r.Args != "['é', 1180591620717411303424, 1.5]" || r.Kwargs != "{'k': None}" || time.Since(r.Timestamp).Abs() > time.Hour {
		t.Errorf("%+v", r)
	}
	if f := decoded(fail, "task-failed").(celery.TaskFailed); !strings.HasPrefix(f.Exception, "ValueError(") || !strings.Contains(f.Traceback, "no\x00good") {
		t.Errorf("%+v", f)
	}
	if f := decoded(unknown, "task-failed").(celery.TaskFailed); !strings.Contains(f.Exception, "swh.test.Unknown") {
		t.Errorf("%+v", f)
	}
	if r := decoded(reject, "task-rejected").(celery.TaskRejected); r.Requeue {
		t.Errorf("%+v", r)
	}
	for _, line := range []string{"Task swh.test.Echo[" + echo + "] received", "Task swh.test.Echo[" + packed + "] succeeded"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the worker didn't log %q", line)
		}
	}
}

func sameJSON(a []byte, b string) bool {
	norm := func(text []byte) string {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return string(text)
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return norm(a) == norm([]byte(b))
}

// runConsumer runs a consumer until the test ends.
func runConsumer(t testing.TB, b celery.Broker, o celery.ConsumerOptions, out chan<- celery.Delivery) *celery.Consumer {
	t.Helper()
	o.Logger = logger(t)
	c := celery.NewConsumer(b, o)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context(), out) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = c.Close()
	})
	return c
}

// captureEvents keeps the body of a message, named for what is in it.
func captureEvents(t testing.TB, body []byte) {
	t.Helper()
	events, err := celery.DecodeEvents(body, "application/json")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, e := range events {
		types[e.Type] = true
	}
	names := slices.Sorted(maps.Keys(types))
	prefix, err := exec.Command(testenv.Python(t), "-c", "import sys; print(sys.prefix)").Output()
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.ReplaceAll(body, bytes.TrimSpace(prefix), []byte("/venv"))
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.ReplaceAll(body, []byte(dir), []byte("/celery"))
	if err := os.WriteFile(filepath.Join("testdata", "events", strings.Join(names, "+")+".json"), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// An event that makes no sense is named, and the others of its message are
// read all the same.
func TestBadEventsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body   string
		types  []string
		bad    map[int]error // by place in the message
		unread bool
	}{
		{body: `[]`},
		{body: `{"type": "task-started", "uuid": "u"}`, types: []string{"task-started"}},
		{body: `[{"type": "a-b"}, {"type": "c"}]`, types: []string{"a-b", "c"}},
		{body: `[1, 2]`, bad: map[int]error{0: celery.ErrNoObject, 1: celery.ErrNoObject}},
		{body: `[{"type": "a"}, [], {"uuid": "x"}, {"type": 5}, {"type": "b"}]`, types: []string{"a", "b"},
			bad: map[int]error{1: celery.ErrNoObject, 2: celery.ErrNoEventType, 3: celery.ErrNoEventType}},
		{body: `{"uuid": "x"}`, bad: map[int]error{0: celery.ErrNoEventType}},
		{body: `null`, bad: map[int]error{0: celery.ErrNoObject}},
		{body: ``, unread: true},
		{body: `[{"type": "a"}`, unread: true},
		{body: `{"type": "a"} x`, unread: true},
	} {
		events, err := celery.DecodeEvents([]byte(c.body), "application/json; charset=utf-8")
		types := []string(nil)
		for _, e := range events {
			types = append(types, e.Type)
		}
		if !slices.Equal(types, c.types) {
			t.Errorf("%s: %v", c.body, types)
		}
		var bad celery.EventErrors
		errors.As(err, &bad)
		if len(bad) != len(c.bad) || (err != nil) != (c.unread || len(c.bad) > 0) {
			t.Errorf("%s: %v", c.body, err)
		}
		for _, e := range bad {
			if !errors.Is(e, c.bad[e.Index]) {
				t.Errorf("%s: %v", c.body, e)
			}
		}
	}
	if _, err := celery.DecodeEvents([]byte(`[]`), "application/x-python-serialize"); err == nil {
		t.Error("pickled events are read")
	}
}

// Odd values cost a field, not an event; unknown types are kept as they are.
func TestOddEventsAreKept(t *testing.T) {
	t.Parallel()
	decode := func(body string) (celery.Event, any, error) {
		t.Helper()
		events, err := celery.DecodeEvents([]byte(body), "application/json")
		if err != nil || len(events) != 1 {
			t.Fatalf("%s: %v, %v", body, events, err)
		}
		payload, err := events[0].Decode()
		return events[0], payload, err
	}
	e, payload, err := decode(`{"type": "my-event", "x": [1, NaN, {"y": -Infinity}, "NaN"]}`)
	if kept, ok := payload.(celery.Event); err != nil || !ok || kept.Type != "my-event" || string(e.Fields["x"]) != `[1, null, {"y": null}, "NaN"]` {
		t.Errorf("%+v, %v", payload, err)
	}
	_, payload, err = decode(`{"type": "task-failed", "uuid": "u", "exception": 5, "traceback": "a\u0000\ud800b", "timestamp": 1e300, "hostname": null}`)
	f, ok := payload.(celery.TaskFailed)
	if !ok || f.UUID != "u" || f.Exception != "" || f.Traceback != "a\x00\ufffdb" || !f.Timestamp.IsZero() {
		t.Errorf("%+v", payload)
	}
	var field *celery.FieldError
	if !errors.As(err, &field) || !strings.Contains(err.Error(), `"exception"`) || !strings.Contains(err.Error(), `"timestamp"`) {
		t.Errorf("%v", err)
	}
	_, payload, err = decode(`{"type": "task-revoked", "uuid": "u", "terminated": true, "signum": 15, "expired": null, "timestamp": 1700000000.25}`)
	if r, ok := payload.(celery.TaskRevoked); err != nil || !ok || !r.Terminated || r.Signal != "15" || r.Expired ||
		!r.Timestamp.Equal(time.Unix(1700000000, 250_000_000)) {
		t.Errorf("%+v, %v", payload, err)
	}
	// The same in msgpack.
	events, err := celery.DecodeEvents([]byte("\x91\x83\xa4type\xacworker-elect\xa2id\xa1x\xa6action\x92\x01\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), "application/x-msgpack")
	if err != nil || len(events) != 1 {
		t.Fatal(events, err)
	}
	if payload, err := events[0].Decode(); err != nil || payload.(celery.WorkerElect).ID != "x" || string(payload.(celery.WorkerElect).Action) != "[1,null]" {
		t.Errorf("%+v, %v", payload, err)
	}
}
