package door

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// echo answers as a door whose database sends back all that it gets.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/below"+Path || r.Header.Get("Upgrade") != Protocol || r.Header.Get("Connection") != "Upgrade" {
		http.NotFound(w, r)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: postgresql\r\nConnection: Upgrade\r\n\r\nhello ")
	_, _ = io.Copy(conn, buffered)
}

func dialTo(t *testing.T, ctx context.Context, url string) (net.Conn, error) {
	t.Helper()
	address, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return address.Dial((&net.Dialer{}).DialContext)(ctx, "tcp", "nobody:1")
}

// Bytes pass in both directions, also those that came with the answer; deadlines end reads, and
// closing ends a read in progress.
func TestDial(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	conn, err := dialTo(t, t.Context(), server.URL+"/below/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "world\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); line != "hello world\n" || err != nil {
		t.Errorf("read %q, %v", line, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "again\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); line != "again\n" || err != nil {
		t.Errorf("after a deadline read %q, %v", line, err)
	}
	ended := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	_ = conn.Close()
	if err := <-ended; err == nil {
		t.Error("a read in progress did not end with the connection")
	}
}

// A sign of life is nothing that the database has sent: a read waits on.
func TestDialDropsSigns(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: postgresql\r\nConnection: Upgrade\r\n\r\n"+string(signOfLife))
		_, _ = conn.Read(make([]byte, 1))
		_, _ = io.WriteString(conn, string(signOfLife)+"Z\x00\x00\x00\x05I")
	}))
	t.Cleanup(server.Close)
	conn, err := dialTo(t, t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 100)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes: %v", n, err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	if n, err := conn.Read(answer); string(answer[:n]) != "Z\x00\x00\x00\x05I" || err != nil {
		t.Errorf("read %q: %v", answer[:n], err)
	}
}

// The door of a server with TLS asks for HTTP/1.1, also where the server has HTTP/2.
func TestDialTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := http.DefaultTransport.(*http.Transport)
	before := transport.TLSClientConfig
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.Cleanup(func() { transport.TLSClientConfig = before })
	conn, err := dialTo(t, t.Context(), server.URL+"/below")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	text := make([]byte, 6)
	if _, err := io.ReadFull(conn, text); string(text) != "hello " || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}

// A server that gives no connection is an error that says why, without passwords.
func TestClosedDoors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   string
	}{
		"the Python server":  {404, nil, "<html>Not Found", "has no door to its database: replace the RPC server first, or give this daemon a database (scheduler.db)"},
		"an older one":       {405, nil, "", "has no door to its database: replace the RPC server first, or give this daemon a database (scheduler.db)"},
		"one that is closed": {404, http.Header{"Upgrade": {Protocol}}, "The door\nis closed.", `has a closed door to its database: its owner opens it by "swh-scheduler migrate --door"`},
		"one that is full":   {503, http.Header{"Upgrade": {Protocol}}, "200 connections are open", "HTTP status 503 Service Unavailable: 200 connections are open"},
		"credentials":        {401, nil, "who?", "refuses the credentials in scheduler.url (HTTP status 401): write those that it has for daemons, as http://USER:PASSWORD@HOST:PORT/"},
		"a proxy":            {502, nil, strings.Repeat("x", 100_000), "HTTP status 502 Bad Gateway"},
		"a redirection":      {302, http.Header{"Location": {"http://elsewhere.example/"}}, "", "HTTP status 302 Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for key, values := range c.header {
					w.Header()[key] = values
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(server.Close)
			_, err := dialTo(t, t.Context(), strings.Replace(server.URL, "//", "//u:s3cret@", 1))
			closed, ok := errors.AsType[*ClosedError](err)
			if !ok || closed.Status != c.status || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	for _, url := range []string{"", "s3cret", "ftp://s3cret@h/", "http://h:s3cret/"} {
		if _, err := Parse(url); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A server that doesn't answer holds a dial no longer than its context.
func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer func() { _ = conn.Close() }()
			cancel()
			<-t.Context().Done()
		}
	}()
	if _, err := dialTo(t, ctx, "http://"+listener.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
