package service

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// Names are compared without case, port and last dot, and never by a part.
func TestHosts(t *testing.T) {
	t.Parallel()
	hosts := Hosts{"Scheduler.example", "*.pods.example", "rpc."}
	for host, want := range map[string]bool{
		"scheduler.example": true, "SCHEDULER.example.:9100": true, "rpc:5008": true, "10.0.0.7:9090": true, "[2001:db8::1]:9090": true, "::1": true, "localhost": true,
		"a.pods.example": true, "a.b.pods.example:1": true, "pods.example": false, ".pods.example": false, "xpods.example": false,
		"evil.example": false, "": false, ":9100": false, ".": false, "scheduler.example.evil.example": false, "10.0.0.7.evil.example": false, "*.pods.example.evil": false,
	} {
		if got := hosts.Has(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// A machine has the names that its hosts file and its resolver give it, and no other.
func TestMachineNames(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/etc/hosts":       "127.0.0.1 localhost\n10.0.0.7\tnode7.internal.example node7 mq # other.example\n10.0.0.8 node8\n# 1.2.3.4 node7 evil.example\n",
		"/etc/resolv.conf": "nameserver 10.0.0.1\nsearch swh.svc.cluster.local. cluster.local\noptions ndots:5\n",
	}
	read := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	names := func(name string, err error) []string {
		got := machineNames(func() (string, error) { return name, err }, read)
		slices.Sort(got)
		return slices.Compact(got)
	}
	want := []string{"mq", "node7", "node7.cluster.local", "node7.internal.example", "node7.swh.svc.cluster.local"}
	if diff := cmp.Diff(want, names("node7", nil)); diff != "" {
		t.Error(diff)
	}
	clear(files)
	if diff := cmp.Diff([]string{"node7", "node7.internal.example"}, names("node7.internal.example", nil)); diff != "" {
		t.Error(diff)
	}
	if got := names("", errors.New("none")); got != nil {
		t.Error(got)
	}
}

// A page of elsewhere whose name was made to lead here reads neither metrics nor health nor profiles, and a
// browser takes no answer for another type than it has. Profiles are for this host, and who has the token.
func TestMetricsAreForKnownHosts(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	registry := prometheus.NewRegistry()
	handler := func(token string) http.Handler {
		return MetricsServer{Addr: "metrics.example:9100", Gatherer: registry, Health: NewHealth(), Log: slog.New(slog.NewTextHandler(&log, nil)), Hosts: Hosts{"*.pods.example"}, Pprof: true, Token: token}.handler()
	}
	open, guarded := handler(""), handler("a-token-of-20-letters")
	for _, c := range []struct {
		on            http.Handler
		host, path    string
		from          string
		status        int
		authorization string
		header        string
	}{
		{on: open, host: "metrics.example:9100", path: "/metrics", status: 200},
		{on: open, host: "a.pods.example", path: "/metrics", status: 200},
		{on: open, host: "10.1.2.3:9090", path: "/healthz", status: 200},
		{on: open, host: "10.1.2.3:9090", path: "/readyz", status: 200},
		{on: open, host: "", path: "/healthz", status: 200}, // HTTP/1.0
		{on: open, host: "evil.example", path: "/metrics", status: 421},
		{on: guarded, host: "evil.example", path: "/metrics", status: 421},
		{on: open, host: "evil.example:9100", path: "/healthz", status: 421},
		{on: open, host: "evil.example:9100", path: "/readyz", status: 421},
		{on: open, host: "evil.example", path: "/debug/pprof/goroutine?debug=1", from: "127.0.0.1:1", status: 421},
		{on: open, host: "localhost", path: "/debug/pprof/goroutine?debug=1", from: "127.0.0.1:1", status: 200},
		{on: open, host: "localhost", path: "/debug/pprof/goroutine?debug=1", from: "[::1]:1", status: 200},
		{on: open, host: "localhost", path: "/debug/pprof/goroutine?debug=1", from: "[::ffff:127.0.0.1]:1", status: 200},
		{on: open, host: "10.1.2.3", path: "/debug/pprof/goroutine?debug=1", from: "10.1.2.9:1", status: 401},
		{on: open, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", status: 401},
		{on: open, host: "10.1.2.3", path: "/debug/pprof/symbol", from: "10.1.2.9:1", status: 401},
		{on: open, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", authorization: "Bearer ", status: 401},
		{on: open, host: "localhost", path: "/debug/pprof/", from: "127.0.0.1:1", header: "X-Forwarded-For", status: 401},
		{on: open, host: "localhost", path: "/debug/pprof/", from: "127.0.0.1:1", header: "Forwarded", status: 401},
		{on: open, host: "localhost", path: "/debug/pprof/", from: "127.0.0.1:1", header: "Via", status: 401},
		{on: guarded, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", status: 401},
		{on: guarded, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", authorization: "Bearer a-token-of-20-letterz", status: 401},
		{on: guarded, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", authorization: "Bearer a-token-of-20-letters", status: 200},
		{on: guarded, host: "10.1.2.3", path: "/debug/pprof/", from: "10.1.2.9:1", authorization: "Basic eDphLXRva2VuLW9mLTIwLWxldHRlcnM=", status: 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		r.Host = c.host
		if c.from != "" {
			r.RemoteAddr = c.from
		}
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		if c.header != "" {
			r.Header.Set(c.header, "x")
		}
		w := httptest.NewRecorder()
		c.on.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%+v: %d, %v", c, w.Code, w.Header())
		}
	}
	if line := log.String(); strings.Count(line, "refused a request for a name that is not this host's") != 2 || !strings.Contains(line, "add_it_to=metrics.hosts") {
		t.Errorf("logged %q, want a line of each server", line)
	}
}
