package service

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What is registered can be read as soon as it is served, with how the daemon is,
// profiles if that was asked for, and the address is free again when that has stopped.
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
	health := NewHealth()
	server := MetricsServer{Addr: addr, Gatherer: registry, Health: health, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	stop, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		response, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, text := get("/metrics"); status != http.StatusOK || !strings.Contains(text, "swh_test_total 3") {
		t.Errorf("%d %q", status, text)
	}
	met := health.Expect("PostgreSQL")
	if status, text := get("/readyz"); status != http.StatusServiceUnavailable || text != "waiting for PostgreSQL\n" {
		t.Errorf("%d %q", status, text)
	}
	met()
	for path, want := range map[string]string{"/readyz": "ready\n", "/healthz": "alive\n"} {
		if status, text := get(path); status != http.StatusOK || text != want {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	if _, err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("on an address in use: %v", err)
	}
	const profiles = "/debug/pprof/goroutine?debug=1"
	if status, _ := get(profiles); status != http.StatusNotFound {
		t.Errorf("profiles nobody asked for: %d", status)
	}
	stop()
	server.Pprof = true
	if stop, err = server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := get(profiles); status != http.StatusOK || !strings.Contains(text, "goroutine profile") {
		t.Errorf("profiles: %d %q", status, text)
	}
	stop()
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Error(err)
	} else {
		_ = again.Close()
	}
}
