package door

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// A refused dial leaves no connection to the RPC server.
func TestRefusedDialsLeaveNoConnection(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", Protocol)
		http.Error(w, "Too many connections to the database start at once; try again.", http.StatusServiceUnavailable)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	for range 20 {
		if conn, err := dialTo(t, t.Context(), server.URL); err == nil {
			_ = conn.Close()
			t.Fatal("it has connected")
		}
	}
	for until := time.Now().Add(20 * time.Second); open.Load() > 0 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := open.Load(); n > 0 {
		t.Errorf("%d of 20 connections are open after their dials have failed", n)
	}
}
