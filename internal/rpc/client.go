package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
)

// Client calls a scheduler's RPC server, ours or the Python scheduler's. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	http  *http.Client
	shows door.Credentials
}

// NewClient makes a client of the server at address, http:// or https://, with user and password if the server needs
// them. It connects at the first call.
func NewClient(address string) (*Client, error) { return NewClientWith(address, door.Credentials{}) }

// NewClientWith is NewClient for a client with further credentials.
func NewClientWith(address string, shows door.Credentials) (*Client, error) {
	base, err := door.ServerURL(address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if shows != (door.Credentials{}) {
		if transport.TLSClientConfig, err = shows.TLS(); err != nil {
			return nil, err
		}
	}
	return &Client{base: base, http: &http.Client{Transport: transport}, shows: shows}, nil
}

// String names the server, without its password.
func (c *Client) String() string { return c.base.Redacted() }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// RemoteError is an exception that the server answered with.
type RemoteError struct {
	Server  string // its address, without password
	Call    string // path, such as task/create
	Status  int    // HTTP's
	Class   string // of the Python exception; "" if the answer was no exception
	Message string
}

func (e *RemoteError) Error() string {
	if e.Class == "" {
		text := fmt.Sprintf("RPC server %s: %s: HTTP status %d %s", e.Server, e.Call, e.Status, http.StatusText(e.Status))
		if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed {
			text += " (is this the address of an RPC server?)"
		}
		return text
	}
	return fmt.Sprintf("RPC server %s: %s: %s: %s", e.Server, e.Call, e.Class, e.Message)
}

// The pauses between tries of a call that the server did not execute, as in the Python scheduler's client.
var retryPauses = []time.Duration{500 * time.Millisecond, 2 * time.Second}

// call makes a call whose arguments visit writes, and reads the server's result.
func (c *Client) call(ctx context.Context, path string, visit func(*fields)) (any, error) {
	e := newEncoder(mimeMsgpack, nil)
	e.openDict()
	visit(&fields{out: e})
	e.closeDict()
	body, err := e.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, pause := range retryPauses {
		value, err := c.post(ctx, path, body)
		if !worthRetrying(err) {
			return value, err
		}
		if err := service.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	return c.post(ctx, path, body)
}

// worthRetrying reports whether the call was not executed and may succeed later.
func worthRetrying(err error) bool {
	if remote, ok := errors.AsType[*RemoteError](err); ok {
		return remote.Status == http.StatusBadGateway || remote.Status == http.StatusServiceUnavailable
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func (c *Client) post(ctx context.Context, path string, body []byte) (any, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", mimeMsgpack)
	request.Header.Set("Accept", mimeMsgpack)
	c.shows.Sign(request)
	response, err := c.http.Do(request)
	if err != nil {
		// url.Error repeats the address, which is said better here.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if _, ok := errors.AsType[net.Error](err); ok {
			return nil, fmt.Errorf("RPC server %s is not reachable (is it running, and is its address right?): %w", c, err)
		}
		return nil, fmt.Errorf("RPC server %s: %w", c, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("RPC server %s: %s: %w", c, path, err)
	}
	return c.read(path, response, answer)
}

// read reads an answer: a value, or an exception.
func (c *Client) read(path string, response *http.Response, answer []byte) (any, error) {
	remote := &RemoteError{Server: c.String(), Call: path, Status: response.StatusCode}
	mime, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if mime != mimeMsgpack {
		return nil, remote
	}
	value, err := readMsgpack(answer, limits{depth: defaultLimits.depth, values: maxAnswerValues})
	if err != nil {
		return nil, fmt.Errorf("RPC server %s: %s: the answer cannot be read: %w", c, path, err)
	}
	if response.StatusCode == http.StatusOK {
		return value, nil
	}
	d, _ := value.(dict)
	class, _ := d.get("type")
	message, _ := d.get("message")
	remote.Class, _ = class.(string)
	remote.Message, _ = message.(string)
	return nil, remote
}

// maxAnswerValues bounds an answer, less than the bound of a request: servers are trusted more than clients.
const maxAnswerValues = 1 << 28
