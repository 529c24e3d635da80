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
	conn := testenv.Connect(t, dsn)
	s := &stopping{answer: make(chan int, 1), ended: make(chan error, 1)}
	var err error
	if s.holder, err = conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, s.holder, "lock table task_type in access exclusive mode")
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
	awaitCalls(t, s.holder, 1)
	stop()
	// No new connection is taken.
	testenv.Becomes(t, "it takes connections", false, func() bool {
		c, err := net.Dial("tcp", server.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return s
}

// awaitCalls returns when so many calls wait for the lock that holder's transaction has: it
// asks through the connection that holds the lock, as the calls have begun before.
func awaitCalls(t *testing.T, holder pgx.Tx, n int) {
	t.Helper()
	testenv.Becomes(t, "waiting calls", n, func() int { return testenv.Value[int](t, holder, waitingCalls) })
}

// A call in progress is answered when the server stops.
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

// A call that outlasts the grace period is cut off, in the database too.
func TestStopCutsLongCalls(t *testing.T) {
	t.Parallel()
	s := stopDuringACall(t, 100*time.Millisecond)
	if status := <-s.answer; status == http.StatusOK {
		t.Errorf("the call was answered %d", status)
	}
	if err := <-s.ended; err == nil {
		t.Error("cutting off a call is not told")
	}
	awaitCalls(t, s.holder, 0)
}

// A stopping server is not ready, so that it gets no new calls.
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
