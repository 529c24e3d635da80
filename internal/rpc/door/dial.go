package door

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// An Address is the address of an RPC server's door.
type Address struct {
	server *url.URL
	shows  Credentials
}

// Parse is ServerURL for the server's door.
func Parse(address string) (Address, error) {
	server, err := ServerURL(address)
	return Address{server: server}, err
}

// With returns the address with further credentials of the client, after a check of their files.
func (a Address) With(shows Credentials) (Address, error) {
	a.shows = shows
	_, err := shows.TLS()
	return a, err
}

// ServerURL reads the address of an RPC server, http:// or https://, with user and password if the server needs
// them. Its errors don't quote the address, which may hold a password.
func ServerURL(address string) (*url.URL, error) {
	server, err := url.Parse(address)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, errors.New("the address of the RPC server is not a URL such as http://scheduler.example:5008/")
	}
	return server, nil
}

// String returns the server's address without the password.
func (a Address) String() string { return a.server.Redacted() }

// Host and Port are the server's TCP address.
func (a Address) Host() string { return a.server.Hostname() }

func (a Address) Port() string {
	if port := a.server.Port(); port != "" {
		return port
	}
	if a.server.Scheme == "https" {
		return "443"
	}
	return "80"
}

// A ClosedError is the reason why a server gives no connection to its database.
type ClosedError struct {
	Server string // its address, without password
	Status int    // HTTP's
	Reason string // the server's text, or ""
	shown  bool   // the client has credentials besides those of the address
}

const (
	noDoor     = "has no door to its database: replace the RPC server first, or give this daemon a database (scheduler.db)"
	closedDoor = "has a closed door to its database: its owner opens it by \"swh-scheduler migrate --door\""
)

// missing reports whether the server has no door, or a closed one, and returns a text for it.
func (e *ClosedError) missing() (what string, ok bool) {
	switch {
	case e.Status != http.StatusNotFound && e.Status != http.StatusMethodNotAllowed:
		return "", false
	case e.Reason == "": // the Python server, or an older one of ours
		return noDoor, true
	}
	return closedDoor, true
}

// Advice returns the condition that the daemon waits for, without the server's address.
func (e *ClosedError) Advice() string {
	if what, ok := e.missing(); ok {
		return "the RPC server, which " + what
	}
	return fmt.Sprintf("the RPC server, which gives no connection to its database (HTTP status %d)", e.Status)
}

func (e *ClosedError) Error() string {
	if what, ok := e.missing(); ok {
		return fmt.Sprintf("RPC server %s %s", e.Server, what)
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		none := ""
		if !strings.Contains(e.Server, "@") {
			none = "there are none; "
		}
		text := fmt.Sprintf("RPC server %s refuses the credentials in scheduler.url (HTTP status %d): %swrite those that it has for daemons, as http://USER:PASSWORD@HOST:PORT/", e.Server, e.Status, none)
		if e.shown {
			text = fmt.Sprintf("RPC server %s refuses the credentials of scheduler.session_kwargs (HTTP status %d)", e.Server, e.Status)
		}
		return text
	}
	text := fmt.Sprintf("RPC server %s gives no connection to its database: HTTP status %d %s", e.Server, e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Dial returns a function that connects to the database through the door. It uses dial for the connection to the RPC
// server or to its proxy, which the environment names as for all HTTP clients (HTTPS_PROXY). A server without an
// open door is a *ClosedError.
func (a Address) Dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx, dial) }
}

func (a Address) dial(ctx context.Context, dial pgconn.DialFunc) (net.Conn, error) {
	var socket net.Conn
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// HTTP/2 has no upgrades.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	if a.shows != (Credentials{}) {
		config, err := a.shows.TLS()
		if err != nil {
			return nil, fmt.Errorf("scheduler.session_kwargs.%w", err)
		}
		transport.TLSClientConfig = config
	}
	transport.TLSClientConfig = cmp.Or(transport.TLSClientConfig, new(tls.Config)).Clone()
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		socket = conn
		return conn, err
	}
	// The request's context ends with the connection; the caller's ends with the dial.
	requestCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	conn, err := a.ask(requestCtx, transport)
	if err != nil {
		cancel()
		transport.CloseIdleConnections() // of a refusal: no other request uses this transport
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &connection{Conn: socket, stream: conn, cancel: cancel}, nil
}

// ask asks for the door, and returns the connection behind it.
func (a Address) ask(ctx context.Context, transport *http.Transport) (io.ReadWriteCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server.JoinPath(Path).String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", Protocol)
	a.shows.Sign(request)
	response, err := (&http.Client{Transport: transport, CheckRedirect: noRedirects}).Do(request)
	if err != nil {
		// url.Error repeats the address, which String names.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("RPC server %s: %w", a, err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		if conn, ok := response.Body.(io.ReadWriteCloser); ok {
			return conn, nil
		}
	}
	defer func() { _ = response.Body.Close() }()
	return nil, &ClosedError{Server: a.String(), Status: response.StatusCode, Reason: reason(response), shown: a.shows.Certificate+a.shows.Authorization != ""}
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// reason returns the first words of an answer, on one line, if the server has a door: it then names
// the protocol.
func reason(response *http.Response) string {
	if response.Header.Get("Upgrade") != Protocol {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
	return strings.Join(strings.Fields(string(text)), " ")
}

// connection is a connection to the database: bytes pass through the HTTP client, deadlines are the
// socket's.
type connection struct {
	net.Conn
	stream io.ReadWriteCloser
	cancel context.CancelFunc
	signs  signs
}

// Read waits for what is no sign of life.
func (c *connection) Read(p []byte) (int, error) {
	for {
		n, err := c.stream.Read(p)
		if left := c.signs.drop(p, n); left > 0 || n == 0 || err != nil {
			return left, err
		}
	}
}

func (c *connection) Write(p []byte) (int, error) { return c.stream.Write(p) }

func (c *connection) Close() error {
	defer c.cancel()
	_ = c.Conn.SetDeadline(time.Unix(1, 0)) // a write in progress ends
	return errors.Join(c.stream.Close(), c.Conn.Close())
}
