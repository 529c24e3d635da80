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

// MetricsServer answers GET /metrics with the registered metrics, in Prometheus's format, and GET /healthz and
// /readyz with the daemon's health.
type MetricsServer struct {
	Addr     string // HOST:PORT
	Gatherer prometheus.Gatherer
	Health   *Health
	Log      *slog.Logger
	Hosts    Hosts  // host names besides this machine's and that of Addr
	Pprof    bool   // serve /debug/pprof/ to this host
	Token    string // token that opens /debug/pprof/ to other hosts; "": closed to them
}

// Start listens, and serves until stop is called. stop returns when the last answer is sent or cut short (Prometheus
// repeats a scrape).
func (s MetricsServer) Start(ctx context.Context) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics on %q: %w", s.Addr, err)
	}
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	if s.Pprof {
		server.WriteTimeout = 5 * time.Minute // profiles and traces last as long as requested
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

// handler returns the handler of all paths.
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
