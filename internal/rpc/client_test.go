package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/tasks"
)

// answering is a transport that answers as it says.
type answering func(*http.Request) (status int, mime string, body []byte, err error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	status, mime, body, err := a(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {mime}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

func clientOf(t testing.TB, a answering) *Client {
	t.Helper()
	c, err := NewClient("http://user:s3cret@scheduler.example:5008/base")
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport = a
	return c
}

// A call that the server reports as not done is retried a few times; any other is not.
func TestClientRetries(t *testing.T) {
	empty := []byte("\x90")
	exception := encodeException(schedulerException("StaleData", "stale"), nil)
	staleData, err := exception.finish()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		answers []answering
		calls   int
		want    string // in the error; "" is none
	}{
		"away for a moment": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 503, "text/html", nil, nil },
			func(*http.Request) (int, string, []byte, error) { return 0, "", nil, syscall.ECONNREFUSED },
			func(*http.Request) (int, string, []byte, error) { return 200, mimeMsgpack, empty, nil },
		}, 3, ""},
		"away for long": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 502, "text/html", nil, nil },
		}, 3, "HTTP status 502 Bad Gateway"},
		"cut off, so that it may have been done": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 0, "", nil, syscall.ECONNRESET },
		}, 1, "connection reset by peer"},
		"an error of the server": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 500, "text/html", nil, nil },
		}, 1, "HTTP status 500"},
		"no RPC server": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 404, "text/html", nil, nil },
		}, 1, "HTTP status 404 Not Found (is this the address of an RPC server?)"},
		"an exception": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 400, mimeMsgpack, staleData, nil },
		}, 1, "StaleData: stale"},
		"a page": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 200, "text/html", []byte("<html>"), nil },
		}, 1, "HTTP status 200"},
		"not msgpack": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 200, mimeMsgpack, []byte("\xc1"), nil },
		}, 1, "cannot be read"},
		"another shape": {[]answering{
			func(*http.Request) (int, string, []byte, error) { return 200, mimeMsgpack, []byte("\x91\x01"), nil },
		}, 1, "the RPC server's response is not a scheduler's (its type is int)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				c := clientOf(t, func(r *http.Request) (int, string, []byte, error) {
					if r.URL.Path != "/base/task_type/get_all" || r.Method != http.MethodPost {
						t.Errorf("%s %s", r.Method, r.URL)
					}
					calls++
					return tc.answers[min(calls, len(tc.answers))-1](r)
				})
				_, err := c.TaskTypes(t.Context())
				if calls != tc.calls || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%d calls, want %d; %v, want %q", calls, tc.calls, err, tc.want)
				}
				if strings.Contains(fmt.Sprint(err), "s3cret") {
					t.Error("the password is shown")
				}
			})
		})
	}
}

// The wait before a retry ends with the context.
func TestClientStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := clientOf(t, func(*http.Request) (int, string, []byte, error) { return 503, "", nil, nil })
		if _, err := c.TaskTypes(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Any response of a server becomes a value or an error.
func FuzzClientAnswers(f *testing.F) {
	f.Add([]byte("\xc0"))
	f.Add([]byte("\x90"))
	f.Add([]byte("\x80"))
	e := newEncoder(mimeMsgpack, nil)
	manyTasks.write(&fields{out: e}, &[]model.Task{{ID: 1, Type: "t", Arguments: model.TaskArguments{Args: []byte("[]"), Kwargs: []byte("{}")}, Status: "completed", Policy: "oneshot"}})
	task, err := e.finish()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(task)
	f.Fuzz(func(t *testing.T, body []byte) {
		c := clientOf(t, func(*http.Request) (int, string, []byte, error) { return 200, mimeMsgpack, body, nil })
		ctx, now := t.Context(), time.Unix(0, 0)
		_, _ = c.TaskType(ctx, "t")
		_, _ = c.TaskTypes(ctx)
		_, _ = c.SearchTasks(ctx, tasks.TaskFilter{})
		_, _ = c.TaskRuns(ctx, nil, 0)
		_, _ = c.GrabNextVisits(ctx, model.VisitFilter{}, now, 1, true)
		_, _ = c.Lister(ctx, "l", "")
		_, _, _ = c.ListedOrigins(ctx, origins.ListedOriginFilter{})
		_, _ = c.VisitStats(ctx, nil)
		_, _ = c.UpdateMetrics(ctx, uuid.NullUUID{}, now)
		_, _, _ = c.StorageOrigins(ctx, "0")
	})
}
