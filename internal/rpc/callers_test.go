package rpc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// from opens a connection from an address of this host, and sends text.
func from(t *testing.T, address, url, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func statusOf(conn net.Conn) string {
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	_ = response.Body.Close()
	return response.Status
}

const (
	oneByte   = "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
	shortCall = "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
)

// Bodies that never arrive block no other client, from any address: neither while the server waits for them, nor
// as others replace them.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t))
	for round := range 2 {
		for range 550 {
			from(t, "127.0.0.1", url, oneByte)
		}
		for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
			answered := map[string]int{}
			for range 20 {
				answered[statusOf(from(t, address, url, shortCall))]++
			}
			if answered["200 OK"] != 20 {
				t.Errorf("calls from %s beside %d bodies that don't come: %v", address, (round+1)*550, answered)
			}
		}
	}
}

// Of slow bodies, the server soon gives up the oldest ones of the address that sends most.
func TestSlowBodiesAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) { o.smallTime = time.Minute })
	stranger := from(t, "127.0.0.2", url, oneByte)
	var slow []net.Conn
	for range maxAwaitedFrom + 10 {
		slow = append(slow, from(t, "127.0.0.1", url, oneByte))
	}
	began := time.Now()
	if status := statusOf(slow[0]); status != "408 Request Timeout" || time.Since(began) > 30*time.Second {
		t.Errorf("the oldest: %s after %s", status, time.Since(began))
	}
	if _, err := io.WriteString(stranger, strings.Repeat(" ", 99_998)+"}"); err != nil {
		t.Fatal(err)
	}
	if status := statusOf(stranger); status != "200 OK" {
		t.Errorf("that of another address: %s", status)
	}
}

// One address has at most half of the concurrent calls, so that its long calls can't block others.
func TestCallsAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn)
	store := openStore(t, dsn)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "lock table task in access exclusive mode")
	const body = `{"task_type": "t", "limit": 1}`
	hanging := fmt.Sprintf("POST /task/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	var calls []net.Conn
	for range maxCallsOfOne {
		calls = append(calls, from(t, "127.0.0.1", url, hanging))
	}
	testenv.Becomes(t, "one call more of the same address", "503 Service Unavailable", func() string {
		conn := from(t, "127.0.0.1", url, "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"a\": 1}")
		status := statusOf(conn)
		if status != "503 Service Unavailable" { // it may have taken the place of a hanging call that was read later
			calls = append(calls, from(t, "127.0.0.1", url, hanging))
		}
		return status
	})
	if status := statusOf(from(t, "127.0.0.2", url, strings.Replace(shortCall, "{}", "[]", 1))); !strings.HasPrefix(status, "500") {
		t.Errorf("a call of another address: %s", status)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{}
	for _, conn := range calls {
		statuses[statusOf(conn)]++
	}
	if statuses["200 OK"] != maxCallsOfOne || statuses["200 OK"]+statuses["503 Service Unavailable"] != len(calls) {
		t.Errorf("calls that took long: %v, want %d to succeed, and the others to be refused", statuses, maxCallsOfOne)
	}
}

// The sender of a refused body has one more second: the server reads as much as it can before the response.
func TestRefusedLargeBodiesEnd(t *testing.T) {
	t.Parallel()
	r := newRoom(1<<20, 1, time.Millisecond)
	if err := r.reserve(t.Context(), r.bodies, 1<<20); err != nil {
		t.Fatal(err)
	}
	var until time.Time
	call := &share{room: r}
	call.await(func(at time.Time) { until = at })
	if err := call.enlarge(t.Context(), 1<<19); err == nil || err.(*exception).status != http.StatusServiceUnavailable {
		t.Errorf("%v, want no room", err)
	}
	call.arrived(false)
	if left := time.Until(until); until.IsZero() || left > hurried {
		t.Errorf("it may take until %s", until)
	}
	call.leave()
}

// Slow large bodies hold the room for large bodies only for a bounded time, also many from one address.
func TestSlowLargeBodiesGiveWay(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	url := serve(t, testenv.Database(t), func(o *Options) { o.MaxBody = most })
	slow := fmt.Sprintf("POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", most, strings.Repeat(" ", smallBody+4096))
	for range 5 {
		from(t, "127.0.0.1", url, slow)
	}
	time.Sleep(100 * time.Millisecond) // for at least one to get room; otherwise the next is only answered sooner
	body := strings.Repeat(" ", 2*smallBody) + "{}"
	began := time.Now()
	conn := from(t, "127.0.0.2", url, fmt.Sprintf("POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if status := statusOf(conn); status != "200 OK" {
		t.Errorf("a large body of another address: %s after %s", status, time.Since(began))
	}
}
