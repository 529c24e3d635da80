package service

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
// Prometheus reads, and GET /healthz and /readyz with how the daemon is.
type MetricsServer struct {
	Addr     string // HOST:PORT
	Gatherer prometheus.Gatherer
	Health   *Health
	Log      *slog.Logger
	Hosts    Hosts  // besides this machine's and that of Addr
	Pprof    bool   // also serve /debug/pprof/, to this host
	Token    string // with which others may read /debug/pprof/, too; "": none may
}

// Start listens, and serves until stop is called, which returns when the last
// answer is given or cut short (a scrape is asked for again).
func (s MetricsServer) Start(ctx context.Context) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics on %q: %w", s.Addr, err)
	}
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	if s.Pprof {
		server.WriteTimeout = 5 * time.Minute // profiles and traces are of some time
	}
	s.Log.Info("serving metrics", "address", listener.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("metrics are no longer served", "error", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// handler returns what is served.
func (s MetricsServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{}))
	s.Health.Handle(mux)
	if s.Pprof {
		s.profiles(mux)
	}
	return HostsOf(s.Addr, s.Hosts).Guard("metrics.hosts", s.Log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		NoSniff(w)
		mux.ServeHTTP(w, r)
	}))
}
