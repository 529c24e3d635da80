package config

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/ulikunitz/xz"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// side is one of the two senders, with its own virtual host.
type side struct {
	env testenv.Broker
	ch  *amqp.Channel
}

func newSide(t *testing.T) side {
	t.Helper()
	env := testenv.RabbitMQ(t)
	return side{env, testenv.Channel(t, env.URL)}
}

// arrived is the content of a queue, and the arguments of its declaration.
type arrived struct {
	Message   amqp.Delivery
	Body      string // after decompression
	Arguments map[string]any
	Bindings  []string
}

func (s side) arrived(t *testing.T, queue string) arrived {
	t.Helper()
	d, ok, err := s.ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatalf("nothing arrived in queue %q: %v", queue, err)
	}
	a := arrived{Message: d}
	delete(d.Headers, "origin")
	a.Message.ReplyTo, a.Message.Acknowledger, a.Message.DeliveryTag = "", nil, 0
	var r io.Reader
	switch packed := bytes.NewReader(d.Body); d.Headers["compression"] {
	case "application/x-gzip":
		r, err = zlib.NewReader(packed)
	case "application/x-lzma":
		r, err = xz.NewReader(packed)
	case "application/x-brotli":
		r = brotli.NewReader(packed)
	case "application/zstd":
		r, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
	}
	if r != nil && err == nil {
		d.Body, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Body, a.Message.Body = string(d.Body), nil
	var declared struct{ Arguments map[string]any }
	s.manage(t, queue, &declared)
	a.Arguments = declared.Arguments
	var bindings []struct {
		Source     string
		RoutingKey string `json:"routing_key"`
	}
	s.manage(t, queue+"/bindings", &bindings)
	for _, b := range bindings {
		a.Bindings = append(a.Bindings, b.Source+" "+b.RoutingKey)
	}
	return a
}

// manage reads a queue's description from the management API.
func (s side) manage(t *testing.T, name string, into any) {
	t.Helper()
	u := testenv.URL(t, s.env.URL)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(fmt.Sprintf("%s/api/queues%s/%s", strings.TrimSuffix(s.env.ManagementURL, "/"), u.Path, name))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", name, response.Status, err)
	}
}

// From one file, both schedulers send the same message to the same exchange or queue. They declare a missing queue in
// the same way.
func TestFilesSendAsThePythonSchedulerDoes(t *testing.T) {
	t.Parallel()
	theirs, ours := newSide(t), newSide(t)
	python := testenv.StartScript(t, nil, "testdata/send.py")
	for _, s := range []side{theirs, ours} {
		err := errors.Join(
			s.ch.ExchangeDeclare("x", "topic", true, false, false, false, nil),
			s.ch.ExchangeDeclare("swh.0.q", "direct", true, false, false, false, nil),
			func() error { _, err := s.ch.QueueDeclare("swh.0.q", true, false, false, false, nil); return err }(),
			s.ch.QueueBind("swh.0.q", "swh.0.q", "swh.0.q", false, nil),
			s.ch.QueueBind("swh.0.q", "k.#", "x", false, nil))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, tc := range []struct {
		keys        string
		name, queue string // of the task; queue is "" if the caller names none
		in          string // the queue that receives the message; "" for the task's own
	}{
		{keys: "task_routes: {swh.N.*: {queue: swh.N.q, exchange: x, routing_key: k.a}}", name: "swh.N.t", in: "swh.N.q"},
		{name: "swh.N.t"},
		{name: "other.N", in: "celery"},
		{keys: "task_serializer: msgpack", name: "swh.N.t"},
		{keys: "task_compression: gzip", name: "swh.N.t"},
		{keys: "task_compression: lzma", name: "swh.N.t"},
		{keys: "task_compression: brotli", name: "swh.N.t"},
		{keys: "task_compression: zstd", name: "swh.N.t"},
		{keys: "task_serializer: msgpack, task_compression: zlib, task_default_delivery_mode: transient", name: "swh.N.t"},
		{keys: "task_default_delivery_mode: 1", name: "swh.N.t", queue: "save_code_now:swh.N.t"},
		{keys: "task_default_queue: N.others", name: "other", in: "N.others"},
		{keys: "task_default_queue: N.others", name: "swh.N.t"},
		{keys: "task_default_exchange: e, task_default_exchange_type: topic, task_default_routing_key: k, task_default_queue_type: quorum, task_default_priority: 3", name: "swh.N.t"},
		{keys: "task_queue_max_priority: 7, task_routes: {swh.N.t: {queue: swh.N.q, priority: 5}}", name: "swh.N.t", in: "swh.N.q"},
		{keys: "task_create_missing_queue_type: quorum, task_queues: [swh.N.q]", name: "swh.N.t"},
		{keys: "task_create_missing_queue_type: quorum, task_queues: {swh.N.t: {exchange: e, routing_key: k, queue_arguments: {x-max-length: 3}}}", name: "swh.N.t"},
		{keys: "task_routes: null", name: "swh.N.t", in: "celery"},
		{keys: "task_routes: {swh.N.*: {queue: swh.N.q, exchange: x, exchange_type: direct}}", name: "swh.N.t", in: "swh.N.q"},
		{keys: "task_routes: {swh.N.*: {queue: swh.N.q, routing_key: k, delivery_mode: transient, serializer: msgpack, compression: application/x-gzip}}", name: "swh.N.t", in: "swh.N.q"},
		{keys: "task_routes: {swh.*: swh.N.q, swh.N.t: swh.N.exact}", name: "swh.N.t", in: "swh.N.exact"},
		{keys: "task_routes: [{other: a}, {swh.N.*: swh.N.q}, {swh.N.t: swh.N.exact}]", name: "swh.N.t", in: "swh.N.q"},
		{keys: "task_routes: [[[swh.N.a, a], ['sw?.N.[!a-s]*', {queue: swh.N.q}], ['*', b]]]", name: "swh.N.t", in: "swh.N.q"},
		{keys: "task_routes: {swh.N.a*: a}", name: "swh.N.t", in: "celery"},
		{keys: "task_routes: {'swh.N.?': a, '*': {priority: 4}}", name: "swh.N.t", in: "celery"},
		{keys: "task_routes: {swh.N.t: {queue: swh.N.q, priority: 9}}", name: "swh.N.t", queue: "save_code_now:swh.N.t"},
	} {
		numbered := func(text string) string { return strings.ReplaceAll(text, "N", fmt.Sprint(i)) }
		file := func(s side) string { // the two files differ in the broker only
			return fmt.Sprintf("celery: {task_broker: '%s', %s}", s.env.URL, numbered(tc.keys))
		}
		m := celery.TaskMessage{
			ID: uuid.NewString(), Name: numbered(tc.name), Queue: numbered(tc.queue),
			Args: []byte(`[1, -300, 2.5, null, NaN, -1e400]`), Kwargs: []byte(`{"url": "https://é.example/", "n": {"a": [true, 18446744073709551615]}}`),
		}
		in := numbered(tc.in)
		var refused struct{ Error string }
		asked := map[string]any{"file": file(theirs), "name": m.Name, "args": string(m.Args), "kwargs": string(m.Kwargs), "id": m.ID, "queue": nil}
		if m.Queue != "" {
			asked["queue"], in = m.Queue, m.Queue
		}
		if in == "" {
			in = m.Name
		}
		if python.Ask(t, asked, &refused); refused.Error != "" {
			t.Errorf("%s: Python: %s", tc.keys, refused.Error)
			continue
		}
		c, _, err := parse("F", []byte(file(ours)))
		if err != nil {
			t.Errorf("%s: %v", tc.keys, err)
			continue
		}
		if m.Queue == "" {
			tt := model.TaskType{BackendName: m.Name}
			if route := c.Celery.Route(); route != nil {
				tt.Routed = route(m.Name)
			}
			m.Queue = tt.Queue()
		}
		if err := publish(t, c, m); err != nil {
			t.Errorf("%s: %v", tc.keys, err)
			continue
		}
		if diff := cmp.Diff(theirs.arrived(t, in), ours.arrived(t, in)); diff != "" {
			t.Errorf("%s (-Python +ours):\n%s", tc.keys, diff)
		}
	}
}

func publish(t *testing.T, c *Config, m celery.TaskMessage) error {
	t.Helper()
	broker, err := c.Broker()
	if err != nil {
		return err
	}
	p := celery.NewPublisher(broker, celery.PublisherOptions{Logger: slog.New(slog.DiscardHandler), Sending: c.Celery.Sending})
	err = p.DeclareQueue(t.Context(), m.Queue)
	if err == nil {
		err = errors.Join(p.Publish(t.Context(), []celery.TaskMessage{m})...)
	}
	return errors.Join(err, p.Close())
}
