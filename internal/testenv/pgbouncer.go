package testenv

import (
	"context"
	"log/slog"
	"net/url"
	"testing"

	"swh-scheduler/internal/testenv/throwaway"
)

// PgBouncer returns the URL of a database through a PgBouncer of the test, whose clients share a few connections
// between transactions.
func PgBouncer(t testing.TB, dsn string) string {
	t.Helper()
	through, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("testenv: the database's URL is none")
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	const connections = 6
	host, stop, err := throwaway.StartPgBouncer(ctx, slog.New(slog.DiscardHandler), dsn, connections)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(stop)
	through.Host = host
	return through.String()
}
