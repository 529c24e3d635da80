package testenv

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Balancer is a plain proxy in front of several servers, like an ingress. It assigns connections to servers in turn,
// and cuts idle ones.
type Balancer struct {
	Addr string // where clients connect (host:port)

	targets []string // host:port
	idle    time.Duration
	next    atomic.Int64
	cuts    atomic.Int64
	wg      sync.WaitGroup
}

// Balance starts a Balancer that cuts connections after idle without data, until the test ends. It skips a server
// that refuses a connection.
func Balance(t testing.TB, idle time.Duration, targets ...string) *Balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Balancer{Addr: listener.Addr().String(), targets: targets, idle: idle}
	open := make(map[net.Conn]struct{})
	var mu sync.Mutex
	var closed bool
	b.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // the client closed before Accept
			}
			server, err := b.dial()
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			open[client], open[server] = struct{}{}, struct{}{}
			if closed {
				_, _ = client.Close(), server.Close()
			}
			mu.Unlock()
			b.wg.Go(func() {
				b.forward(client, server)
				mu.Lock()
				defer mu.Unlock()
				delete(open, client)
				delete(open, server)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		closed = true
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		b.wg.Wait()
	})
	return b
}

// Cuts returns the number of idle connections that it has cut.
func (b *Balancer) Cuts() int { return int(b.cuts.Load()) }

// dial connects to the next server in turn, or to the one after it.
func (b *Balancer) dial() (conn net.Conn, err error) {
	first := b.next.Add(1)
	for i := range b.targets {
		if conn, err = net.Dial("tcp", b.targets[(int(first)+i)%len(b.targets)]); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// forward copies both ways until either side ends or the connection is idle for too long.
func (b *Balancer) forward(client, server net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	cut := time.AfterFunc(b.idle, func() {
		b.cuts.Add(1)
		_, _ = client.Close(), server.Close()
	})
	defer cut.Stop()
	ended := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, reading{from, func() { cut.Reset(b.idle) }})
		ended <- struct{}{}
	}
	go pipe(client, server)
	go pipe(server, client)
	<-ended
	_, _ = client.Close(), server.Close()
	<-ended
}

// reading calls read after each read.
type reading struct {
	io.Reader
	read func()
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read()
	return n, err
}
