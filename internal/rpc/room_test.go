package rpc

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// Large calls share the room for bodies. One that doesn't fit waits for the others, and after some time gets a
// response that asks for a retry. Small calls are answered meanwhile.
func TestLargeCallsWaitForRoom(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	body := bytes.Repeat([]byte{' '}, most/2+1) // two of them are too many
	copy(body, "{}")
	dsn := testenv.Database(t)
	start := func(wait time.Duration) (url string, send func() (*http.Response, error), hold *io.PipeWriter, held chan int) {
		t.Helper()
		url = serve(t, dsn, func(o *Options) { o.MaxBody, o.roomWait = most, wait }) + "/task_type/get_all"
		reader, hold := io.Pipe()
		held = make(chan int, 1)
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, reader)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = int64(len(body))
		request.Header.Set("Content-Type", mimeJSON)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				held <- 0
				return
			}
			_ = response.Body.Close()
			held <- response.StatusCode
		}()
		// It has room once more is read of it than what needs none, and than buffers hold.
		if _, err := hold.Write(body[:len(body)-1]); err != nil {
			t.Fatal(err)
		}
		return url, func() (*http.Response, error) {
			response, _, err := tryPost(context.Background(), url, mimeJSON, body)
			return response, err
		}, hold, held
	}
	end := func(hold *io.PipeWriter, held chan int) {
		t.Helper()
		if _, err := hold.Write(body[len(body)-1:]); err != nil {
			t.Fatal(err)
		}
		_ = hold.Close()
		if status := <-held; status != http.StatusOK {
			t.Errorf("the first large call: %d", status)
		}
	}

	// Long enough for the first to wait for a second that is read sooner.
	url, send, hold, held := start(3 * time.Second)
	var response *http.Response
	testenv.Becomes(t, "a second large call", http.StatusServiceUnavailable, func() int { // the first may not have been read yet
		var err error
		if response, err = send(); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode
	})
	if response.Header.Get("Retry-After") == "" {
		t.Errorf("a second large call: %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	small, _ := post(t, url, mimeJSON, []byte("{}"))
	if small.StatusCode != http.StatusOK {
		t.Errorf("a small call beside: %s", small.Status)
	}
	end(hold, held)
	if response, err := send(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("a large call after: %v, %v", response, err)
	}

	_, send, hold, held = start(time.Minute)
	second := make(chan string, 1)
	go func() {
		response, err := send()
		if err != nil {
			second <- err.Error()
			return
		}
		second <- response.Status
	}()
	end(hold, held)
	if status := <-second; !strings.HasPrefix(status, "200") {
		t.Errorf("a large call that waited: %s", status)
	}
}

// A compressed body waits for the room of its largest possible contents, and then keeps that of its actual ones.
func TestCompressedCallsNeedRoom(t *testing.T) {
	t.Parallel()
	r := newRoom(1<<20, 1, 2*time.Second)
	if err := r.reserve(t.Context(), r.bodies, 1<<20-smallBody-1); err != nil {
		t.Fatal(err)
	}
	plain := bytes.Repeat([]byte{' '}, smallBody+1)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(gzipped(t, plain)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Encoding", "gzip")
	if _, err := readBody(request, nil, 1<<20, &share{room: r}); err == nil || err.(*exception).status != http.StatusServiceUnavailable {
		t.Errorf("%v, want no room", err)
	}
	r.bodies.Release(1<<20 - smallBody - 1)
	request.Body = io.NopCloser(bytes.NewReader(gzipped(t, plain)))
	call := &share{room: r}
	body, err := readBody(request, nil, 1<<20, call)
	if err != nil || len(body) != len(plain) {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	if err := r.reserve(t.Context(), r.bodies, 1<<20-int64(len(plain))); err != nil {
		t.Errorf("beside a body that is read: %v", err)
	}
	if r.bodies.TryAcquire(1) {
		t.Error("the body that was read holds no room")
	}
	call.leave()
	if !r.bodies.TryAcquire(int64(len(plain))) {
		t.Error("the room was not given back")
	}
}

// The server stops reading a body that is too large, and releases its room.
func TestTooLargeBodies(t *testing.T) {
	t.Parallel()
	const maximum = 2 * smallBody
	r := newRoom(maximum, 1, time.Millisecond)
	call := &share{room: r}
	bomb := gzipped(t, make([]byte, 500*maximum))
	source := bytes.NewReader(bomb)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.NopCloser(source))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Encoding", "gzip")
	if _, err := readBody(request, nil, maximum, call); err == nil || err.(*exception).status != statusTooLarge {
		t.Errorf("%v, want that it is too large", err)
	}
	if read := len(bomb) - source.Len(); read > len(bomb)/2 {
		t.Errorf("%d of %d bytes were read", read, len(bomb))
	}
	call.leave()
	if !r.bodies.TryAcquire(maximum) {
		t.Error("the room was not given back")
	}
}
