package dispatch_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// staleManagement is a management API that goes on telling what it told first, as
// RabbitMQ's does for some seconds, until it is renewed.
type staleManagement struct {
	proxy *httputil.ReverseProxy

	mu      sync.Mutex
	fresh   bool
	answers map[string]*httptest.ResponseRecorder // by path
}

// newStaleManagement starts one, and returns its URL.
func newStaleManagement(t *testing.T, managementURL string) (*staleManagement, string) {
	t.Helper()
	u, err := url.Parse(managementURL)
	if err != nil {
		t.Fatal(err)
	}
	m := &staleManagement{
		proxy:   &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host}) }},
		answers: map[string]*httptest.ResponseRecorder{},
	}
	server := httptest.NewServer(m)
	t.Cleanup(func() {
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	stale, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	stale.User = u.User
	return m, stale.String()
}

func (m *staleManagement) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fresh {
		m.proxy.ServeHTTP(w, r)
		return
	}
	answer := m.answers[r.URL.EscapedPath()]
	if answer == nil {
		answer = httptest.NewRecorder()
		m.proxy.ServeHTTP(answer, r)
		m.answers[r.URL.EscapedPath()] = answer
	}
	maps.Copy(w.Header(), answer.Header()) // it may be compressed
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (m *staleManagement) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh = true
}

// holder is a worker that holds what it got, unacknowledged.
type holder struct {
	deliveries <-chan amqp.Delivery
	held       []amqp.Delivery
}

func (b *bench) hold(t *testing.T, queue string, prefetch int) *holder {
	t.Helper()
	ch := b.channel(t)
	if err := ch.Qos(prefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{deliveries: deliveries}
}

// take waits for n more messages.
func (h *holder) take(t *testing.T, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for range n {
		select {
		case d := <-h.deliveries:
			h.held = append(h.held, d)
		case <-late:
			t.Fatalf("a worker holds %d messages after a minute", len(h.held))
		}
	}
}

// acknowledge ends the first n that it holds.
func (h *holder) acknowledge(t *testing.T, n int) {
	t.Helper()
	for _, d := range h.held[:n] {
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	h.held = h.held[n:]
}

// Repeated claims give a full queue no message, whether its messages are outgoing, ready or unacknowledged, even
// if the management API's figures are older than them. After acknowledgements it is refilled to its limit, once
// these figures include what the worker may hold.
func TestFullQueueGetsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const limit, prefetch, acknowledged = 50, 20, 7
	management, managementURL := newStaleManagement(t, b.broker.ManagementURL)
	address := parsed.Broker(t, b.broker.URL)
	// However slow this machine is, all was delivered after the figures.
	inspector := celery.NewQueueInspector(address, managementURL, celery.InspectorOptions{Timeout: time.Minute, StatsAge: 4 * time.Minute})
	t.Cleanup(func() { _ = inspector.Close() })
	d := b.deliverer(t, b.publisher)
	slots := dispatch.NewSlots(b.store, inspector, d.Wake)

	held := &holder{}
	ch := b.channel(t)
	claim := func() int {
		t.Helper()
		n, err := claimWith(t.Context(), slots, dispatch.Queue{Name: "q", Limit: new(int64(limit))}, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
			rows, _ := messages("q", free)
			return rows, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	check := func(when string) {
		t.Helper()
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if total := q.Messages + len(held.held) + b.outbox(t); total > limit {
			t.Fatalf("%s: %d messages ready, %d held, %d in the outbox; the limit is %d", when, q.Messages, len(held.held), b.outbox(t), limit)
		}
	}
	full := func(when string) {
		t.Helper()
		for range 3 {
			if n := claim(); n != 0 {
				t.Fatalf("%s: a claim takes %d more", when, n)
			}
			if _, err := d.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(when)
		}
	}

	if n := claim(); n != limit {
		t.Fatalf("the first claim takes %d, want %d", n, limit)
	}
	if n := claim(); n != 0 {
		t.Fatalf("with all in the outbox, a claim takes %d more", n)
	}
	if _, err := d.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	full("ready")
	held = b.hold(t, "q", prefetch)
	held.take(t, prefetch)
	full("held by a worker")
	held.acknowledge(t, acknowledged)
	held.take(t, acknowledged)
	full("acknowledged, which no figure shows yet")

	management.renew()
	refilled := 0
	testenv.Becomes(t, "refilled slots", acknowledged, func() int {
		refilled += claim()
		if _, err := d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("refilling")
		return refilled
	})
	full("refilled")
}
