package celery_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// BenchmarkPublish sends 50,000 persistent task messages into one queue. A loop over the AMQP library sends the same
// bytes in turns, with as many messages in flight. The metric "of-bare" is our rate divided by the loop's rate.
func BenchmarkPublish(b *testing.B) {
	const total, turn, window = 50_000, 5_000, 1_000
	env := testenv.RabbitMQ(b)
	ch := testenv.Channel(b, env.URL)
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	testenv.Declare(b, ch, "ours", nil)
	testenv.Declare(b, ch, "bare", nil)
	p := publisher(b, parsed.Broker(b, env.URL), celery.PublisherOptions{MaxInFlight: window})
	msgs := tasks("ours", turn)
	for i := range msgs {
		msgs[i].Kwargs = []byte(`{"url": "https://example.org/some/repository.git", "incremental": true}`)
	}
	// Both send the same messages.
	if err := errors.Join(p.Publish(b.Context(), msgs[:1])...); err != nil {
		b.Fatal(err)
	}
	d, ok, err := ch.Get("ours", true)
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	same := amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Body: d.Body,
	}
	bare := func() {
		flying := make([]*amqp.DeferredConfirmation, 0, turn)
		for i := range turn {
			if i >= window && !flying[i-window].Wait() {
				b.Fatal("refused")
			}
			confirm, err := ch.PublishWithDeferredConfirm("", "bare", true, false, same)
			if err != nil {
				b.Fatal(err)
			}
			flying = append(flying, confirm)
		}
		for _, confirm := range flying {
			if !confirm.Wait() {
				b.Fatal("refused")
			}
		}
	}
	var ours, theirs time.Duration
	for b.Loop() {
		for range total / turn {
			start := time.Now()
			bare()
			theirs += time.Since(start)
			start = time.Now()
			if err := errors.Join(p.Publish(b.Context(), msgs)...); err != nil {
				b.Fatal(err)
			}
			ours += time.Since(start)
		}
		for _, queue := range []string{"ours", "bare"} {
			if _, err := ch.QueuePurge(queue, false); err != nil {
				b.Fatal(err)
			}
		}
	}
	sent := float64(total * b.N)
	b.ReportMetric(sent/ours.Seconds(), "msg/s")
	b.ReportMetric(sent/theirs.Seconds(), "bare-msg/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "of-bare")
}

// BenchmarkDecodeEvents decodes a message of ten events, a usual batch of a worker. The metric "of-generic" is our time
// divided by that of encoding/json with maps.
func BenchmarkDecodeEvents(b *testing.B) {
	var events []json.RawMessage
	for len(events) < 10 {
		for _, name := range []string{"task-received", "task-started", "task-succeeded"} {
			body := testenv.Read(b, filepath.Join("testdata", "events", name+".json"))
			var some []json.RawMessage
			if err := json.Unmarshal(body, &some); err != nil {
				b.Fatal(err)
			}
			events = append(events, some...)
		}
	}
	body, err := json.Marshal(events[:10])
	if err != nil {
		b.Fatal(err)
	}
	var ours, generic time.Duration
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		start := time.Now()
		if _, err := celery.DecodeEvents(body, "application/json"); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(start)
		b.StopTimer()
		start = time.Now()
		var maps []map[string]any
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&maps); err != nil {
			b.Fatal(err)
		}
		generic += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(ours.Seconds()/generic.Seconds(), "of-generic")
}

// BenchmarkEncode encodes one message of usual size.
func BenchmarkEncode(b *testing.B) {
	encode := celery.Encode()
	m := celery.TaskMessage{
		ID: "84c4aecf-b31c-424a-996f-e6a7a02202c8", Name: "swh.loader.git.tasks.UpdateGitRepository", Queue: "swh.loader.git.tasks.UpdateGitRepository",
		Args:   []byte(`[]`),
		Kwargs: []byte(`{"url": "https://example.org/some/repository.git", "lister_name": "github", "lister_instance_name": "github"}`),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := encode(&m); err != nil {
			b.Fatal(err)
		}
	}
}

// The encoder reuses its buffers. One message allocates only what its headers need.
func TestEncodingAllocatesLittle(t *testing.T) {
	encode := celery.Encode()
	m := tasks("queue", 1)[0]
	m.Kwargs = []byte(`{"url": "https://example.org/", "n": [1, 2, 3]}`)
	allocations := testing.AllocsPerRun(1000, func() {
		if err := encode(&m); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 10 {
		t.Errorf("%v allocations a message", allocations)
	}
}
