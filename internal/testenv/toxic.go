package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Toxic is a TCP proxy in front of a service, with faults of the network.
type Toxic struct {
	// Addr is the address for clients (host:port); it stays the same through Cut and Restore.
	Addr string

	target string
	copy   func(x *Toxic, dst io.Writer, src net.Conn, fromClient bool) error // nil: copies unchanged
	t      testing.TB
	delay  atomic.Int64 // nanoseconds, of each forwarded piece

	mu       sync.Mutex
	hold     *hold                     // nil unless frames are held
	listener net.Listener              // nil while cut
	silent   bool                      // whether new connections are silent
	conns    map[net.Conn]*atomic.Bool // whether they are silent
	wg       sync.WaitGroup
}

// Proxy returns a proxy to target (host:port), closed when the test ends.
func Proxy(t testing.TB, target string) *Toxic {
	t.Helper()
	return proxy(t, &Toxic{target: target})
}

// BrokerProxy returns a proxy to a broker, which can hold frames.
func BrokerProxy(t testing.TB, target string) *Toxic {
	t.Helper()
	return proxy(t, &Toxic{target: target, copy: (*Toxic).copyFrames})
}

// DatabaseProxy returns a proxy to a PostgreSQL, which can hold its answers to commits.
func DatabaseProxy(t testing.TB, target string) *Toxic {
	t.Helper()
	return proxy(t, &Toxic{target: target, copy: (*Toxic).copyMessages})
}

// Through returns a URL through a new proxy to its host, and the proxy that make makes.
func Through(t testing.TB, address string, make func(testing.TB, string) *Toxic) (through string, way *Toxic) {
	t.Helper()
	way = make(t, Host(t, address))
	return WithHost(t, address, way.Addr), way
}

// proxies are the addresses (host:port) of proxies, each with its server's.
var proxies sync.Map

// behindProxies returns a URL with the host behind proxies.
func behindProxies(t testing.TB, address string) string {
	t.Helper()
	u := URL(t, address)
	for {
		target, ok := proxies.Load(u.Host)
		if !ok {
			return u.String()
		}
		u.Host = target.(string)
	}
}

// Host returns the host of a URL, with its port.
func Host(t testing.TB, address string) string {
	t.Helper()
	return URL(t, address).Host
}

// WithHost returns a URL with another host and port.
func WithHost(t testing.TB, address, host string) string {
	t.Helper()
	u := URL(t, address)
	u.Host = host
	return u.String()
}

// URL parses a URL.
func URL(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return u
}

func proxy(t testing.TB, x *Toxic) *Toxic {
	t.Helper()
	x.t, x.conns = t, make(map[net.Conn]*atomic.Bool)
	x.Addr = reservePort(t)
	proxies.Store(x.Addr, x.target)
	x.Restore()
	t.Cleanup(func() {
		x.Cut()
		x.wg.Wait()
	})
	return x
}

// Connections returns the number of its connections.
func (x *Toxic) Connections() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.conns) / 2 // each has two sides
}

// Cut resets every connection and refuses new ones, until Restore. It drops held data.
func (x *Toxic) Cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.endHold() // when nothing can pass
	if x.listener != nil {
		_ = x.listener.Close()
		x.listener = nil
	}
	for conn := range x.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			// A reset, unlike a close, loses data in flight.
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// Silence swallows the data of open connections, including their end, like a host without power: neither side gets
// anything from the other. With alsoNew, new connections are accepted and swallowed, too, until Restore.
func (x *Toxic) Silence(alsoNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.silent = alsoNew
	for _, silent := range x.conns {
		silent.Store(true)
	}
}

// Slow delays each piece of at most 32 KiB, either way, one after another, like a slow connection over a long
// distance. 0 ends it.
func (x *Toxic) Slow(by time.Duration) { x.delay.Store(int64(by)) }

// Restore accepts new connections again.
func (x *Toxic) Restore() {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.silent = false
	if x.listener != nil {
		return
	}
	listener, err := sharing.Listen(context.Background(), "tcp", x.Addr)
	if err != nil {
		x.t.Fatalf("testenv: proxy to %s: %v", x.target, err)
	}
	x.listener = listener
	x.wg.Go(func() { x.accept(listener) })
}

func (x *Toxic) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client closed before Accept
		}
		x.wg.Go(func() { x.forward(listener, client) })
	}
}

// forward copies both ways until either side ends or the proxy is cut.
func (x *Toxic) forward(listener net.Listener, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", x.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()

	x.mu.Lock()
	if x.listener != listener { // cut while dialling
		x.mu.Unlock()
		return
	}
	silent := new(atomic.Bool)
	silent.Store(x.silent)
	x.conns[client], x.conns[server] = silent, silent
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.conns, client)
		delete(x.conns, server)
	}()

	var pipes sync.WaitGroup
	pipes.Go(func() { x.pipe(server, client, silent, true) })
	pipes.Go(func() { x.pipe(client, server, silent, false) })
	pipes.Wait()
}

// pipe copies until src ends, then closes dst for writing. After a failed read or write both are useless.
func (x *Toxic) pipe(dst, src net.Conn, silent *atomic.Bool, fromClient bool) {
	var err error
	if out := (mute{dst, silent, &x.delay}); x.copy != nil {
		err = x.copy(x, out, src, fromClient)
	} else {
		_, err = io.Copy(out, src)
	}
	if silent.Load() {
		return // the other side gets no end
	}
	if err != nil {
		_ = dst.Close()
		_ = src.Close()
		return
	}
	if tcp, ok := dst.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// sharing makes listeners for a port that is reserved.
var sharing = net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) (err error) {
	failed := socket.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(failed, err)
}}

// reservePort reserves a port until the test ends, while no server listens on it. It returns its address.
func reservePort(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	var bound unix.Sockaddr
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err == nil {
		if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
			bound, err = unix.Getsockname(fd)
		}
	}
	if err != nil {
		t.Fatalf("testenv: reserve a port: %v", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}

// mute delays writes, and swallows them while it is silent.
type mute struct {
	io.Writer
	silent *atomic.Bool
	delay  *atomic.Int64
}

func (m mute) Write(p []byte) (int, error) {
	if by := m.delay.Load(); by > 0 {
		time.Sleep(time.Duration(by))
	}
	if m.silent.Load() {
		return len(p), nil
	}
	return m.Writer.Write(p)
}
