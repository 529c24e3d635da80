// Package served has servers for tests. It is separate, as tests of the servers' dependencies use testenv.
package served

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// RPC serves a database until the test ends, and returns a client of the server.
func RPC(t testing.TB, store *db.Store) *rpc.Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := rpc.Listen(t.Context(), rpc.Options{Address: "127.0.0.1:0", Store: store, Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rpc.NewClient("http://" + server.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, func(ctx context.Context) error {
		return service.Group{Log: log}.Run(ctx, service.Component{Name: "RPC server", Run: server.Run})
	})
	t.Cleanup(client.Close)
	return client
}
