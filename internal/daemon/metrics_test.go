package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What is registered can be read while the daemon runs, and the address is free
// again when it has stopped.
func TestMetricsServer(t *testing.T) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := probe.Addr().String()
	_ = probe.Close()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "swh_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- MetricsServer{Addr: addr, Gatherer: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}.Run(ctx)
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var text string
	for end := time.Now().Add(10 * time.Second); text == "" && time.Now().Before(end); {
		response, err := client.Get("http://" + addr + "/metrics")
		if err != nil {
			continue // not listening yet
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		text = string(body)
	}
	if !strings.Contains(text, "swh_test_total 3") {
		t.Errorf("got %q", text)
	}
	busy := MetricsServer{Addr: addr, Gatherer: registry, Log: slog.New(slog.DiscardHandler)}
	if err := busy.Run(ctx); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("on an address in use: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Error(err)
	} else {
		_ = again.Close()
	}
}
