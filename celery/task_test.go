package celery_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/internal/testenv/seed"
)

var capture = flag.Bool("capture", false, "write testdata/messages anew from what the installed Celery sends")

// taskCase is a task as our message and as arguments of send_task.
type taskCase struct {
	name    string
	message celery.TaskMessage
	options map[string]any // of send_task, without id and queue
}

func taskCases() []taskCase {
	eta := time.Date(2126, 3, 1, 12, 30, 15, 123456000, time.UTC)
	return []taskCase{
		{name: "plain", message: celery.TaskMessage{
			Args: []byte(`["https://example.org/git"]`), Kwargs: []byte(`{"incremental": true}`),
		}},
		{name: "no_arguments", message: celery.TaskMessage{}},
		{name: "null_arguments", message: celery.TaskMessage{Args: []byte(`null`), Kwargs: []byte(`null`)}},
		{name: "values", message: celery.TaskMessage{
			Args:   []byte(`[1, 1180591620717411303424, 1.0, 1e22, 1e-7, -0.0, null, true, false, "é €😀", "it's \"quoted\"\u0000\u001f\u007f"]`),
			Kwargs: []byte(`{"b": 1, "a": {"c": [[[]]], "d": {"e": {"f": {}}}}, "b": 2}`),
		}},
		{name: "shortened", message: celery.TaskMessage{
			Args:   []byte(`["` + strings.Repeat("word ", 300) + `", "never shown", [1]]`),
			Kwargs: []byte(`{"long": [[["` + strings.Repeat("é", 1020) + `", 1], 2], 3]}`),
		}},
		{name: "options", message: celery.TaskMessage{
			Args: []byte(`[]`), Kwargs: []byte(`{}`),
			ETA: eta, TimeLimit: 90 * time.Second, SoftTimeLimit: 1500 * time.Millisecond, RootID: "root",
		}, options: map[string]any{
			"eta": eta.Format("2006-01-02T15:04:05.000000-07:00"), "time_limit": 90, "soft_time_limit": 1.5, "root_id": "root",
		}},
		{name: "time_limit", message: celery.TaskMessage{TimeLimit: 15 * time.Minute}, options: map[string]any{"time_limit": 900}},
		{name: "soft_time_limit", message: celery.TaskMessage{SoftTimeLimit: 500 * time.Millisecond}, options: map[string]any{"soft_time_limit": .5}},
	}
}

// send makes Celery send a task.
func (p *peer) send(m celery.TaskMessage, options map[string]any) (pythonError string) {
	p.t.Helper()
	all := map[string]any{"task_id": m.ID, "queue": m.Queue}
	for k, v := range options {
		all[k] = v
	}
	request := map[string]any{"operation": "send", "name": m.Name, "args": nil, "kwargs": nil, "options": all}
	if m.Args != nil {
		request["args"] = string(m.Args)
	}
	if m.Kwargs != nil {
		request["kwargs"] = string(m.Kwargs)
	}
	return p.ask(request, nil)
}

// forget clears the fields in which two senders may differ.
func (m *message) forget() {
	delete(m.Headers, "origin")
	delete(m.Properties, "reply_to")
}

// Workers can't distinguish our messages from Celery's. All but host and process equals captures of Celery 5.7.
func TestMessagesEqualCaptures(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	python := startPeer(t, env.URL)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	for i, c := range taskCases() {
		m := c.message
		m.ID, m.Name, m.Queue = fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "swh.test.Task", "swh.test.Task"
		file := filepath.Join("testdata", "messages", c.name+".json")
		if *capture {
			if e := python.send(m, c.options); e != "" {
				t.Fatal(c.name, e)
			}
			theirs := python.get(m.Queue)
			theirs.forget()
			saveJSON(t, file, theirs)
		}
		var want message
		loadJSON(t, file, &want)
		if err := p.DeclareQueue(ctx, m.Queue); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Publish(ctx, []celery.TaskMessage{m})...); err != nil {
			t.Fatal(c.name, err)
		}
		got := python.get(m.Queue)
		got.forget()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Celery +ours):\n%s\n%s\n%s", c.name, diff, want.Body, got.Body)
		}
	}
}

func saveJSON(t testing.TB, file string, v any) {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func loadJSON(t testing.TB, file string, into any) {
	t.Helper()
	text := testenv.Read(t, file)
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// The same arguments arrive in the same form, whether Celery or we send them, in JSON and in msgpack.
func TestRandomMessagesEqualCelerys(t *testing.T) {
	t.Parallel()
	const sets = 300
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	python := startPeer(t, env.URL)
	const queue, packed = "swh.test.Task", "swh.test.Packed"
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{Sending: celery.SendSettings{Routes: []celery.Route{
		{Task: regexp.MustCompile(packed), Form: celery.Form{Serializer: celery.MsgpackSerializer}},
	}}})
	if err := p.DeclareQueue(ctx, queue); err != nil {
		t.Fatal(err)
	}
	g := generator{seed.Rand(t)}
	for i := range sets {
		m := celery.TaskMessage{
			ID: uuid.NewString(), Name: queue, Queue: queue,
			Args: []byte(g.list(5)), Kwargs: []byte(g.dict(5)),
		}
		var options map[string]any
		if i%2 == 1 {
			m.Name, options = packed, map[string]any{"serializer": "msgpack"}
		}
		refusal := python.send(m, options)
		var theirs message
		if refusal == "" { // read before ours is sent: Celery waits for no confirmation, so its message may arrive later
			theirs = python.get(queue)
		}
		err := errors.Join(p.Publish(ctx, []celery.TaskMessage{m})...)
		var encoding *celery.EncodingError
		if refusal != "" || err != nil {
			if refusal == "" || !errors.As(err, &encoding) {
				t.Fatalf("set %d: Celery says %q, we %v\n%s\n%s", i, refusal, err, m.Args, m.Kwargs)
			}
			continue
		}
		ours := python.get(queue)
		theirs.forget()
		ours.forget()
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("set %d (-Celery +ours):\n%s\n%s\n%s", i, diff, m.Args, m.Kwargs)
		}
	}
}

// The encoder reuses its headers, but keeps no value of the previous message.
func TestHeadersAreTheMessagesOwn(t *testing.T) {
	t.Parallel()
	plain := celery.TaskMessage{ID: "plain", Name: "swh.test.Task", Queue: "queue"}
	full := celery.TaskMessage{
		ID: "full", Name: "swh.test.Other", Queue: "queue", Args: []byte("[1]"), Kwargs: []byte(`{"a": 1}`), ETA: time.Unix(1, 0), TimeLimit: 2 * time.Minute,
		SoftTimeLimit: time.Minute, RootID: "root", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	headers, err := celery.Headers(plain, full, plain)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(headers[0], headers[2]); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if h := headers[1]; h["traceparent"] != full.TraceParent || h["root_id"] != "root" || h["eta"] == nil {
		t.Errorf("%v", h)
	}
}

// A text that is too long for AMQP is a permanent error.
func TestLongNames(t *testing.T) {
	t.Parallel()
	encode := celery.Encode()
	for _, n := range []int{255, 256} {
		for name, m := range map[string]celery.TaskMessage{
			"id": {ID: strings.Repeat("i", n), Name: "n", Queue: "q"}, "queue": {ID: "i", Name: "n", Queue: strings.Repeat("q", n)},
		} {
			if err := encode(&m); (err != nil) != (n > 255) || celery.IsPermanent(err) != (n > 255) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
}
