package celery_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/internal/testenv/seed"
)

func inspector(t testing.TB, b celery.Broker, managementURL string, o celery.InspectorOptions) *celery.QueueInspector {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logger(t)
	}
	q := celery.NewQueueInspector(b, managementURL, o)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func length(t testing.TB, q *celery.QueueInspector, queue string, recent int) celery.QueueLength {
	t.Helper()
	l, err := q.Length(deadline(t), queue, recent)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// hold consumes a queue and keeps up to n deliveries.
func hold(t testing.TB, brokerURL, queue string, n int, global bool) (*amqp.Channel, <-chan amqp.Delivery) {
	t.Helper()
	ch := testenv.Channel(t, brokerURL)
	if err := ch.Qos(n, 0, global); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ch, deliveries
}

// isNew reports whether l is a queue of three ready messages without consumers. The management API has no counts of a
// new queue yet.
func isNew(l celery.QueueLength) bool {
	return l == celery.QueueLength{Exists: true, Ready: 3} || l == celery.QueueLength{Exists: true, Ready: 3, Unknown: true}
}

// The length is exact for a missing queue, an empty queue, and a queue without consumers, whatever its name.
func TestLengthWithoutConsumers(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
	for _, queue := range []string{"plain", "save_code_now:swh.loader.git.tasks.X", "a/b c%2F?&#é", "%"} {
		if l := length(t, q, queue, 5); l != (celery.QueueLength{}) {
			t.Errorf("missing queue %q: %+v", queue, l)
		}
		testenv.Declare(t, ch, queue, nil)
		fill(t, ch, queue, 3)
		if l := length(t, q, queue, 3); !isNew(l) {
			t.Errorf("queue %q: %+v", queue, l)
		}
	}
}

// A request for a queue whose name is too long for AMQP fails alone. Requests for other queues succeed meanwhile.
func TestLengthOfAQueueWithALongName(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := q.Length(t.Context(), strings.Repeat("x", 256), 0); !celery.IsOfQueue(err) {
				t.Errorf("a long name: %v", err)
			}
		})
		all.Go(func() {
			if _, err := q.Length(t.Context(), "short", 0); err != nil {
				t.Errorf("beside it: %v", err)
			}
		})
	}
	all.Wait()
}

// The length includes messages that consumers took since the management API's last statistics, up to the consumers'
// prefetch limits.
func TestLengthWithPrefetchLimits(t *testing.T) {
	t.Parallel()
	for _, global := range []bool{false, true} {
		t.Run(fmt.Sprintf("global=%v", global), func(t *testing.T) {
			t.Parallel()
			env, ch := withQueue(t)
			q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
			fill(t, ch, "queue", 100)
			_, deliveries := hold(t, env.URL, "queue", 30, global)
			for range 30 {
				<-deliveries
			}
			// The length is never too small, and exact once the management API reports the limits.
			testenv.Becomes(t, "the length is exact", nil, func() error {
				l := length(t, q, "queue", 100)
				if l.Ready != 70 || l.Unacknowledged < 30 {
					t.Fatalf("%+v", l)
				}
				if l.Unacknowledged != 30 {
					return fmt.Errorf("%+v", l)
				}
				return nil
			})
		})
	}
}

// A publisher that fills a queue by the inspector's length never exceeds the limit, while consumers empty the queue.
func TestQueueIsNeverOverfilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			neverOverfilled(t, kind)
		})
	}
}

func neverOverfilled(t *testing.T, kind string) {
	const limit, prefetch, consumers, total = 60, 10, 3, 2000
	env := testenv.RabbitMQ(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "queue", amqp.Table{"x-queue-type": kind})
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})

	var sent, acknowledged atomic.Int64
	var working sync.WaitGroup
	var channels []*amqp.Channel
	for n := range consumers {
		ch, deliveries := hold(t, env.URL, "queue", prefetch, false)
		random := rand.New(rand.NewPCG(seed.Of(t), uint64(n)))
		working.Go(func() {
			held := []amqp.Delivery{}
			for d := range deliveries {
				held = append(held, d)
				// Keep a varying number of messages unacknowledged.
				for len(held) > random.IntN(prefetch) {
					if held[0].Ack(false) != nil {
						return
					}
					held = held[1:]
					acknowledged.Add(1)
				}
			}
		})
		channels = append(channels, ch)
	}
	t.Cleanup(func() {
		for _, ch := range channels {
			_ = ch.Close()
		}
		working.Wait()
	})

	type batch struct {
		at time.Time
		n  int
	}
	var batches []batch
	highest, rounds := int64(0), 0
	ctx := deadline(t)
	for n := 0; n < total; rounds++ {
		recent := 0
		for _, b := range batches {
			if time.Since(b.at) < celery.StatsAge {
				recent += b.n
			}
		}
		free := limit - length(t, q, "queue", recent).Messages()
		if free <= 0 {
			if ctx.Err() != nil {
				t.Fatalf("only %d messages in time", n)
			}
			continue
		}
		msgs := tasks("queue", free)
		sent.Add(int64(free))
		// Acknowledged messages have left the queue. The queue may be shorter than this count.
		highest = max(highest, sent.Load()-acknowledged.Load())
		if err := errors.Join(p.Publish(ctx, msgs)...); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, batch{time.Now(), free})
		n += free
	}
	t.Logf("at most %d messages of %d allowed, %d messages in %d rounds", highest, limit, total, rounds)
	// This test counts an acknowledgement a little after the broker has it: one for each consumer.
	if highest > limit+consumers {
		t.Errorf("the queue held %d messages, its limit is %d", highest, limit)
	}
}

// RabbitMQ answers that a quorum queue holds nothing and has no consumer, if the queue's leader doesn't answer it within
// 250 ms. Then the length is what the management API's figures and deliveries since allow.
func TestLengthWithASilentLeader(t *testing.T) {
	t.Parallel()
	node := testenv.RabbitMQCluster(t, 1).Nodes[0]
	ch := testenv.Channel(t, node.URL)
	testenv.Declare(t, ch, "queue", amqp.Table{"x-queue-type": "quorum"})
	fill(t, ch, "queue", 100)
	_, deliveries := hold(t, node.URL, "queue", 30, false)
	for range 30 {
		<-deliveries
	}
	q := inspector(t, parsed.Broker(t, node.URL), node.ManagementURL, celery.InspectorOptions{})
	testenv.Becomes(t, "the length is exact", celery.QueueLength{Exists: true, Ready: 70, Unacknowledged: 30, Consumers: 1}, func() celery.QueueLength {
		return length(t, q, "queue", 0)
	})
	leader := func(do string) { node.Ctl("eval", "sys:"+do+"({'%2F_queue', node()}).") }
	leader("suspend")
	defer leader("resume")
	if n, err := testenv.Channel(t, node.URL).QueueDeclarePassive("queue", true, false, false, false, nil); err != nil || n.Messages+n.Consumers > 0 {
		t.Fatalf("the leader isn't silent: %+v, %v", n, err)
	}
	for _, recent := range []int{0, 40} {
		if diff := gocmp.Diff(celery.QueueLength{Exists: true, Ready: 70 + recent, Unacknowledged: 30, Consumers: 1}, length(t, q, "queue", recent)); diff != "" {
			t.Error(diff)
		}
	}
}

// The inspector finds and uses the prefetch limit of a real worker.
func TestLengthWithAWorker(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	queue := "swh.test.Sleep"
	startWorker(t, env.URL, []string{queue})
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	msgs := tasks(queue, 10)
	for i := range msgs {
		msgs[i].Name, msgs[i].Args = queue, []byte(`[120]`)
	}
	if err := errors.Join(p.Publish(deadline(t), msgs)...); err != nil {
		t.Fatal(err)
	}
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
	// The worker acknowledges a task when it starts it, and takes one more.
	testenv.Becomes(t, "the length", celery.QueueLength{Exists: true, Ready: 8, Unacknowledged: 1, Consumers: 1}, func() celery.QueueLength {
		return length(t, q, queue, 10)
	})
}

// Without the management API, ready messages are exact and unacknowledged ones unknown. The log says once what that
// costs.
func TestLengthWithoutManagement(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	fill(t, ch, "queue", 10)
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	garbled := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(func() { close(hang); slow.Close(); refusing.Close(); garbled.Close() })
	_, deliveries := hold(t, env.URL, "queue", 4, false)
	for range 4 {
		<-deliveries
	}
	for name, url := range map[string]string{
		"slow": slow.URL, "refusing": strings.Replace(refusing.URL, "//", "//u:secret@", 1), "garbled": garbled.URL, "absent": "http://127.0.0.1:1", "wrong": "ftp://u:secret@h",
	} {
		var log testenv.Buffer
		q := inspector(t, parsed.Broker(t, env.URL), url, celery.InspectorOptions{Logger: textLogger(&log), Timeout: 50 * time.Millisecond})
		for range 3 {
			if diff := gocmp.Diff(celery.QueueLength{Exists: true, Ready: 6, Unacknowledged: 5, Consumers: 1, Unknown: true}, length(t, q, "queue", 5)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Contains(log.String(), "secret") {
			t.Errorf("%s logs %d warnings:\n%s", name, n, &log)
		}
		if hint := strings.Contains(log.String(), "has the user the tag monitoring?"); hint != (name == "refusing") {
			t.Errorf("%s logs\n%s", name, &log)
		}
	}
}

// Without the broker, Length returns an error. It succeeds once the broker is back.
func TestLengthWithoutBroker(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "queue", nil)
	proxy, url := proxied(t, env.URL)
	q := inspector(t, parsed.Broker(t, url), env.ManagementURL, celery.InspectorOptions{})
	length(t, q, "queue", 0)
	proxy.Cut()
	if _, err := q.Length(deadline(t), "queue", 0); err == nil {
		t.Error("a broker that is gone gives a length")
	}
	proxy.Restore()
	testenv.Becomes(t, "the broker is found again", nil, func() error {
		_, err := q.Length(deadline(t), "queue", 0)
		return err
	})
}

// The default management API is on the broker's host, at its port + 10,000, with the broker's scheme.
func TestManagementURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"amqp://u:p@h//":      "http://h:15672",
		"amqp://h:5673":       "http://h:15673",
		"amqps://h":           "https://h:15671",
		"amqp://[::1]/":       "http://[::1]:15672",
		"amqp://a;amqp://b:1": "http://a:15672",
	} {
		if got := parsed.Broker(t, url).ManagementURL(); got != want {
			t.Errorf("%s: %s, not %s", url, got, want)
		}
	}
}

// The broker's URL and the management API accept any name of a virtual host.
func TestOddVirtualHost(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	u := testenv.URL(t, env.URL)
	name := u.Path[1:] + "/a b%2F?#é;"
	escaped := url.PathEscape(name)
	user := cmp.Or(u.User.Username(), "guest")
	manage(t, env, http.MethodPut, "api/vhosts/"+escaped, "")
	t.Cleanup(func() { manage(t, env, http.MethodDelete, "api/vhosts/"+escaped, "") })
	manage(t, env, http.MethodPut, "api/permissions/"+escaped+"/"+url.PathEscape(user), `{"configure": ".*", "write": ".*", "read": ".*"}`)
	u.Path, u.RawPath = "", ""
	b := parsed.Broker(t, strings.TrimSuffix(u.String(), "/")+"/"+strings.ReplaceAll(escaped, ";", "%3B"))

	p := publisher(t, b, celery.PublisherOptions{})
	if err := p.DeclareQueue(deadline(t), "queue"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Publish(deadline(t), tasks("queue", 3))...); err != nil {
		t.Fatal(err)
	}
	var log testenv.Buffer
	q := inspector(t, b, env.ManagementURL, celery.InspectorOptions{Logger: textLogger(&log)})
	if l := length(t, q, "queue", 3); !isNew(l) || log.String() != "" {
		t.Errorf("%+v\n%s", l, &log)
	}
}

// Unacknowledged messages are at most those of the observation plus those that left the ready ones since. If all
// consumers are known, their prefetch limits bound the number too. The broker's answer that a quorum queue has nothing
// bounds nothing.
func TestUnacknowledgedIsAnUpperBound(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
	measure := func(kind string, prefetch int) celery.QueueLength {
		t.Helper()
		l, err := q.LengthSince(deadline(t), "queue", celery.Figures(kind, 3, 10, prefetch), 2)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for prefetch, want := range map[int]int{-1: 15, 2: 10, 12: 12, 100: 15} {
		if got := measure("classic", prefetch).Unacknowledged; got != want {
			t.Errorf("with a limit of %d: %d, want %d", prefetch, got, want)
		}
		if l := measure("quorum", prefetch); l != (celery.QueueLength{Exists: true, Ready: 5, Unacknowledged: 10}) {
			t.Errorf("a quorum queue, with a limit of %d: %+v", prefetch, l)
		}
	}
	if _, err := ch.Consume("queue", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if got := measure("classic", 12).Unacknowledged; got != 15 {
		t.Errorf("with a consumer that the figures don't know: %d, want 15", got)
	}
}

// The inspector closes a silent connection at once and doesn't wait for heartbeats: its caller may hold a lock.
func TestInspectorLeavesASilentConnection(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "q", nil)
	way, through := proxied(t, env.URL)
	q := inspector(t, parsed.Broker(t, through+"?heartbeat=600"), env.ManagementURL, celery.InspectorOptions{})
	length(t, q, "q", 0)
	way.Silence(false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // RabbitMQ's heartbeats would end the connection after 90 s
	defer cancel()
	for {
		_, err := q.LengthSince(ctx, "q", celery.QueueFigures{}, 0)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("it still waits: %v", err)
		}
	}
}
