package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// client sends spans by OTLP over HTTP, as protobuf. It implements otlptrace.Client. The library's own client for
// HTTP brings gRPC into the program, which takes 2 MB.
type client struct {
	settings
	http       *http.Client
	firstDelay time.Duration // before the first retry; each further delay is twice as long
}

// The client retries a batch for retryFor at most, and reads at most maxAnswer bytes of an error.
const (
	retryFor  = time.Minute
	maxAnswer = 1 << 10
)

func newClient(s settings) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	return &client{settings: s, http: &http.Client{Transport: transport, Timeout: s.timeout, CheckRedirect: notFollowed}, firstDelay: time.Second}
}

// notFollowed makes a redirection the answer: headers with secrets go to no other address.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Start does nothing: the first batch opens a connection.
func (*client) Start(context.Context) error { return nil }

// Stop closes idle connections.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends a batch. It retries after network errors and where the collector asks for it (429, 502, 503,
// 504), after a growing delay or that of Retry-After. It returns the last error.
func (c *client) UploadTraces(ctx context.Context, batch []*spans.ResourceSpans) error {
	// TracesData has the wire format of a request for export.
	body, err := proto.Marshal(&spans.TracesData{ResourceSpans: batch})
	if err != nil {
		return err
	}
	if c.gzip {
		if body, err = zipped(body); err != nil {
			return err
		}
	}
	last := time.Now().Add(retryFor)
	for delay := c.firstDelay; ; delay *= 2 {
		wait, err := c.post(ctx, body)
		if err == nil || wait == never {
			return err
		}
		wait = max(wait, delay)
		if time.Now().Add(wait).After(last) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// never says that a request must not be repeated.
const never time.Duration = -1

// post sends a request. After an error, wait is the least delay before another try, or never.
func (c *client) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	request.Header = c.headers.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which may have a token
		}
		return 0, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode/100 == 2:
		return 0, nil
	case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusBadGateway,
		answer.StatusCode == http.StatusServiceUnavailable, answer.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		wait = max(0, time.Duration(min(seconds, int(retryFor/time.Second)))*time.Second)
	default:
		wait = never
	}
	return wait, fmt.Errorf("%s: %q", answer.Status, text)
}

func zipped(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
