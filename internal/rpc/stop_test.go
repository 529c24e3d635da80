package rpc

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
)

// stopping is a server that is told to stop while a call waits in it for a lock
// that the test holds.
type stopping struct {
	url    string
	holder pgx.Tx
	answer chan int // the waiting call's status; 0 if it was cut off
	ended  chan error
}

// waitingCalls counts the calls that wait for the lock. In other tests' databases, of the
// same template, the table has the same number.
const waitingCalls = `select count(*) from pg_locks where not granted and relation = 'task_type'::regclass
	and database = (select oid from pg_database where datname = current_database())`

func stopDuringACall(t *testing.T, grace time.Duration) *stopping {
	t.Helper()
	dsn := testenv.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	s := &stopping{answer: make(chan int, 1), ended: make(chan error, 1)}
	if s.holder, err = conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.holder.Exec(t.Context(), "lock table task_type in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Store: openStore(t, dsn), Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + server.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		s.ended <- service.Group{Log: log, Grace: grace}.Run(ctx, service.Component{Name: "RPC server", Run: server.Run})
	}()
	go func() {
		response, err := http.Post(s.url+"/task_type/get_all", mimeMsgpack, strings.NewReader("\x80"))
		if err != nil {
			t.Log(err)
			s.answer <- 0
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		s.answer <- response.StatusCode
	}()
	awaitBlockedCall(t, s.holder)
	stop()
	// No new connection is taken.
	for deadline := time.Now().Add(2 * time.Minute); ; {
		c, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			return s
		}
		_ = c.Close()
		if time.Now().After(deadline) {
			t.Fatal("it still takes connections")
		}
	}
}

// awaitBlockedCall returns when a call waits for the lock that holder's transaction has.
func awaitBlockedCall(t *testing.T, holder pgx.Tx) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for waiting := 0; waiting == 0; {
		// Through the connection that holds the lock, as the call has begun before.
		if err := holder.QueryRow(t.Context(), waitingCalls).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the call does not wait")
		}
	}
}

// A call that is being answered when the server is told to stop is answered.
func TestStopFinishesCalls(t *testing.T) {
	t.Parallel()
	s := stopDuringACall(t, time.Minute)
	select {
	case err := <-s.ended:
		t.Fatalf("it did not wait for the call: %v", err)
	default:
	}
	if err := s.holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := <-s.answer; status != http.StatusOK {
		t.Errorf("the call was answered %d", status)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// One that goes on longer than the server may is cut off, in the database too.
func TestStopCutsLongCalls(t *testing.T) {
	t.Parallel()
	s := stopDuringACall(t, 100*time.Millisecond)
	if status := <-s.answer; status == http.StatusOK {
		t.Errorf("the call was answered %d", status)
	}
	if err := <-s.ended; err == nil {
		t.Error("cutting off a call is not told")
	}
	deadline := time.Now().Add(2 * time.Minute)
	for waiting := 1; waiting > 0; {
		if err := s.holder.QueryRow(t.Context(), waitingCalls).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the call goes on in the database")
		}
	}
}

// A server that stops is not ready, so that it is sent nothing new.
func TestStoppingIsNotReady(t *testing.T) {
	t.Parallel()
	s := &Server{}
	s.stopping.Store(true)
	answer := httptest.NewRecorder()
	s.ready(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if answer.Code != http.StatusServiceUnavailable || answer.Body.String() != "stopping\n" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
