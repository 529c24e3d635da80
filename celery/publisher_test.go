package celery_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
)

func broker(t testing.TB, url string) celery.Broker {
	t.Helper()
	b, err := celery.ParseBroker(url)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func publisher(t testing.TB, b celery.Broker, o celery.PublisherOptions) *celery.Publisher {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logger(t)
	}
	p := celery.NewPublisher(b, o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A worker must not be able to tell our message from one that Celery sent.
func TestMessageEqualsCelerys(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	python := startPeer(t, env.URL)
	p := publisher(t, broker(t, env.URL), celery.PublisherOptions{})

	queue, id := "swh.test.Task", uuid.NewString()
	args, kwargs := `[1, "é'", [1.5, {"a": [[]]}]]`, `{"url": "https://example.org/", "n": 1180591620717411303424, "none": null}`
	request := map[string]any{
		"operation": "send", "name": queue,
		"args": json.RawMessage(args), "kwargs": json.RawMessage(kwargs),
		"options": map[string]any{"task_id": id, "queue": queue},
	}
	if e := python.ask(request, nil); e != "" {
		t.Fatal(e)
	}
	theirs := python.get(queue)
	err := errors.Join(p.Publish(ctx, []celery.TaskMessage{{
		ID: id, Name: queue, Queue: queue, Args: []byte(args), Kwargs: []byte(kwargs),
	}})...)
	if err != nil {
		t.Fatal(err)
	}
	ours := python.get(queue)
	for _, m := range []message{ours, theirs} {
		delete(m.Headers, "origin")
		delete(m.Properties, "reply_to")
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Error(diff)
	}
	if string(theirs.Body) != string(ours.Body) {
		t.Errorf("bodies:\n%s\n%s", theirs.Body, ours.Body)
	}
	t.Logf("%+v %s", theirs, theirs.Body)
}
