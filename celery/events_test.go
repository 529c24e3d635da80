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
	"swh-scheduler/internal/testenv/parsed"
)

// A real worker runs our messages in both serialisations, and we decode the events that it sends.
func TestWorkerRunsOurMessagesAndWeReadItsEvents(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	b := parsed.Broker(t, env.URL)

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
	fail := send(celery.TaskMessage{Name: "swh.test.Fail"})
	retry := send(celery.TaskMessage{Name: "swh.test.Retry"})
	reject := send(celery.TaskMessage{Name: "swh.test.Reject"})
	unknown := send(celery.TaskMessage{Name: "swh.test.Unknown"})

	want := map[string][]string{
		echo:    {"task-received", "task-started", "task-result", "task-succeeded"},
		fail:    {"task-received", "task-started", "task-failed"},
		retry:   {"task-received", "task-started", "task-retried", "task-succeeded", "task-result"},
		reject:  {"task-received", "task-started", "task-rejected"},
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
			}
		case <-ctx.Done():
			t.Fatalf("still missing: %v\n%s", missing(), w.log)
		}
	}

	text := func(id, eventType, field string) (text string) {
		t.Helper()
		if err := json.Unmarshal(seen[id][eventType].Fields[field], &text); err != nil {
			t.Errorf("%s of %s: %v", field, eventType, err)
		}
		return text
	}
	number := func(id, eventType, field string) (n float64) {
		t.Helper()
		if err := json.Unmarshal(seen[id][eventType].Fields[field], &n); err != nil {
			t.Errorf("%s of %s: %v", field, eventType, err)
		}
		return n
	}
	if r := seen[echo]["task-result"].Fields["result"]; !sameJSON(r,
		`{"status": "success", "eventful": true, "args": ["é", 1180591620717411303424, 1.5], "kwargs": {"k": null}}`) {
		t.Errorf("the worker got other arguments: %s", r)
	}
	if number(echo, "task-succeeded", "runtime") <= 0 || text(echo, "task-succeeded", "hostname") != w.node {
		t.Errorf("%+v", seen[echo]["task-succeeded"])
	}
	if sent := time.Unix(int64(number(echo, "task-received", "timestamp")), 0); text(echo, "task-received", "name") != "swh.test.Echo" ||
		text(echo, "task-received", "args") != "['é', 1180591620717411303424, 1.5]" || text(echo, "task-received", "kwargs") != "{'k': None}" || time.Since(sent).Abs() > time.Hour {
		t.Errorf("%+v", seen[echo]["task-received"])
	}
	if !strings.HasPrefix(text(fail, "task-failed", "exception"), "ValueError(") || !strings.Contains(text(fail, "task-failed", "traceback"), "no\x00good") {
		t.Errorf("%+v", seen[fail]["task-failed"])
	}
	if !strings.Contains(text(unknown, "task-failed", "exception"), "swh.test.Unknown") {
		t.Errorf("%+v", seen[unknown]["task-failed"])
	}
	if requeue := string(seen[reject]["task-rejected"].Fields["requeue"]); requeue != "false" {
		t.Errorf("%+v", seen[reject]["task-rejected"])
	}
	for _, line := range []string{"Task swh.test.Echo[" + echo + "] received", "Task swh.test.Echo[" + echo + "] succeeded"} {
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

// captureEvents stores the body of a message in a file that is named for the body's content.
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

// An event that can't be decoded is an error with its reason. The other events of its message are decoded.
func TestBadEventsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body   string
		types  []string
		bad    map[int]error // by position in the message
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
	if _, err := celery.DecodeEvents([]byte("\x80\x04]\x94."), "application/x-python-serialize"); err == nil {
		t.Error("pickled events are read")
	}
}

// Events keep unusual values and unknown types as JSON.
func TestOddEventsAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, contentType, eventType, field, want string }{
		{`{"type": "my-event", "x": [1, NaN, {"y": -Infinity}, "NaN"]}`, "application/json", "my-event", "x", `[1, 1e999, {"y": 1e999}, "NaN"]`},
		{"\ufeff" + `{"type": "my-event", "x": "after a byte order mark"}`, "application/json", "my-event", "x", `"after a byte order mark"`},
		{`{"type": "task-failed", "uuid": "u", "exception": 5, "timestamp": 1e300}`, "application/json", "task-failed", "exception", "5"},
		{`{"type": "task-failed", "uuid": "u", "traceback": "a\u0000\ud800b"}`, "application/json", "task-failed", "traceback", `"a\u0000\ufffdb"`},
		{"\x91\x83\xa4type\xacworker-elect\xa2id\xa1x\xa6action\x92\x01\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "application/x-msgpack", "worker-elect", "action", "[1,1e999]"},
	} {
		events, err := celery.DecodeEvents([]byte(c.body), c.contentType)
		if err != nil || len(events) != 1 {
			t.Fatalf("%s: %v, %v", c.body, events, err)
		}
		if e := events[0]; e.Type != c.eventType || !sameJSON(e.Fields[c.field], c.want) {
			t.Errorf("%s: %s of %+v is not %s", c.body, c.field, e, c.want)
		}
	}
}

// The decoder refuses messages that are nested deeper than Python reads, in both serialisations. No stack is deep enough
// for all of them.
func TestDeepEventsAreRefused(t *testing.T) {
	t.Parallel()
	const deep = 8 << 20 // deeper than any stack
	for contentType, body := range map[string][]byte{
		"application/json": bytes.Repeat([]byte("["), deep), "application/x-msgpack": append(bytes.Repeat([]byte{0x91}, deep), 0xc0),
	} {
		if events, err := celery.DecodeEvents(body, contentType); err == nil || len(events) > 0 || !strings.Contains(err.Error(), "nested deeper than 1000 levels") {
			t.Errorf("%s: %v, %d events", contentType, err, len(events))
		}
	}
}
