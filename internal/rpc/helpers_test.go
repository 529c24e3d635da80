package rpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// openStore opens a database, closed when the test ends.
func openStore(t testing.TB, dsn string) *db.Store {
	t.Helper()
	return testenv.OpenLocal(t, dsn, postgres.Options{Command: "rpc-serve"})
}

// serve starts a server on a database until the test ends, and gives its URL.
func serve(t testing.TB, dsn string, change ...func(*Options)) string {
	t.Helper()
	o := Options{
		Address: "127.0.0.1:0", Store: openStore(t, dsn),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: prometheus.NewRegistry(),
	}
	for _, f := range change {
		f(&o)
	}
	server, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- service.Group{Log: o.Log}.Run(ctx, service.Component{Name: "RPC server", Run: server.Run})
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	return scheme + server.Addr().String()
}

// post sends a body and returns the answer, its body read.
func post(t testing.TB, url, contentType string, body []byte, header ...string) (*http.Response, []byte) {
	t.Helper()
	response, answer, err := tryPost(t.Context(), url, contentType, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return response, answer
}

// tryPost is post for goroutines, which may not end the test.
func tryPost(ctx context.Context, url, contentType string, body []byte, header ...string) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return tryDo(request)
}

func do(t testing.TB, request *http.Request) (*http.Response, []byte) {
	t.Helper()
	response, answer, err := tryDo(request)
	if err != nil {
		t.Fatal(err)
	}
	return response, answer
}

func tryDo(request *http.Request) (*http.Response, []byte, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response, answer, err
}
