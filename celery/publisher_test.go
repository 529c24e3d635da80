package celery_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/celery"
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
