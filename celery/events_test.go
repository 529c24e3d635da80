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
