package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsServer answers GET /metrics with what is registered, in the form that
// Prometheus reads.
type MetricsServer struct {
	Addr     string // HOST:PORT
	Gatherer prometheus.Gatherer
	Log      *slog.Logger
}

// Run serves until ctx ends. That the address cannot be listened on is an error
// that waiting doesn't cure.
func (s MetricsServer) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listen for metrics on %q: %w", s.Addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // a scrape cut short is asked for again
	s.Log.Info("serving metrics", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %q: %w", s.Addr, err)
	}
	return nil
}
