package celery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

func logger(t testing.TB) *slog.Logger { return textLogger(t.Output()) }

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func publisher(t testing.TB, b celery.Broker, o celery.PublisherOptions) *celery.Publisher {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logger(t)
	}
	p := celery.NewPublisher(b, o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// patience bounds each wait for an event that is due soon. Only a failing test waits so long.
const patience = 3 * time.Minute

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func tasks(queue string, n int) []celery.TaskMessage {
	msgs := make([]celery.TaskMessage, n)
	for i := range msgs {
		msgs[i] = celery.TaskMessage{
			ID: fmt.Sprintf("%s-%d", queue, i), Name: "swh.test.Task", Queue: queue,
			Args: []byte(fmt.Sprintf(`["https://example.org/%d"]`, i)),
		}
	}
	return msgs
}

// check compares the results of publishing with the messages in the queue. A confirmed message is there once, and an
// unsent one isn't there.
func check(t testing.TB, msgs []celery.TaskMessage, errs []error, held map[string]int) (confirmed, unconfirmed, unsent int) {
	t.Helper()
	if len(errs) != len(msgs) {
		t.Fatalf("%d results for %d messages", len(errs), len(msgs))
	}
	for i, m := range msgs {
		n := held[m.ID]
		switch err := errs[i]; {
		case err == nil:
			confirmed++
			if n != 1 {
				t.Errorf("%s is confirmed and %d times in the queue", m.ID, n)
			}
		case errors.Is(err, celery.ErrUnconfirmed):
			unconfirmed++
			if n > 1 {
				t.Errorf("%s is unconfirmed and %d times in the queue", m.ID, n)
			}
		case errors.Is(err, celery.ErrNotSent):
			unsent++
			if n != 0 {
				t.Errorf("%s isn't sent and %d times in the queue", m.ID, n)
			}
		default:
			t.Errorf("%s: %v", m.ID, err)
		}
	}
	return confirmed, unconfirmed, unsent
}

// Each message of a call has its own result. A failed message doesn't affect the others.
func TestEachMessageHasItsResult(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	testenv.Declare(t, ch, "good", nil)
	testenv.Declare(t, ch, "full", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{MaxMessageSize: 2000})

	good, missing, full := tasks("good", 2), tasks("missing", 2), tasks("full", 2)
	large := celery.TaskMessage{ID: "large", Name: "swh.test.Task", Queue: "good", Args: []byte(`["` + strings.Repeat("x", 2000) + `"]`)}
	garbled := celery.TaskMessage{ID: "garbled", Name: "swh.test.Task", Queue: "good", Args: []byte(`["x"`)}
	msgs := []celery.TaskMessage{good[0], missing[0], large, full[0], garbled, full[1], missing[1], good[1]}
	errs := p.Publish(deadline(t), msgs)

	for _, i := range []int{0, 3, 7} {
		if errs[i] != nil {
			t.Errorf("%s: %v", msgs[i].ID, errs[i])
		}
	}
	for _, i := range []int{1, 6} {
		var returned *celery.ReturnedError
		if !errors.As(errs[i], &returned) || returned.Queue != "missing" || !celery.IsPermanent(errs[i]) {
			t.Errorf("%s: %v", msgs[i].ID, errs[i])
		}
	}
	for _, i := range []int{2, 4} {
		var encoding *celery.EncodingError
		if !errors.As(errs[i], &encoding) || encoding.ID != msgs[i].ID || !celery.IsPermanent(errs[i]) {
			t.Errorf("%s: %v", msgs[i].ID, errs[i])
		}
	}
	var rejected *celery.RejectedError
	if !errors.As(errs[5], &rejected) || rejected.Queue != "full" || celery.IsPermanent(errs[5]) {
		t.Errorf("%s: %v", msgs[5].ID, errs[5])
	}
	if diff := cmp.Diff(map[string]int{"good-0": 1, "good-1": 1}, taskIDs(t, ch, "good")); diff != "" {
		t.Error(diff)
	}
}

// Messages with the same ID that the broker returns have a result each: none counts as sent.
func TestReturnedMessagesOfOneID(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	one := tasks("missing", 1)[0]
	for i, err := range p.Publish(deadline(t), []celery.TaskMessage{one, one, one}) {
		if _, returned := errors.AsType[*celery.ReturnedError](err); !returned {
			t.Errorf("%d: %v, want that it was returned", i, err)
		}
	}
}

// A suspect queue is treated like all others once it answers.
func TestSuspectQueueThatAnswers(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	suspect := p.Suspect("queue")
	testenv.Becomes(t, "a message is confirmed", nil, func() error { return p.Publish(deadline(t), tasks("queue", 1))[0] })
	if suspect() {
		t.Error("it still gets few messages at a time")
	}
}

// If the connection breaks, only messages in flight are unconfirmed. The others are sent over the next connection.
func TestLostConnectionWhilePublishing(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	proxy, url := proxied(t, env.URL)
	p := publisher(t, parsed.Broker(t, url), celery.PublisherOptions{MaxInFlight: 200})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}

	msgs := tasks("queue", 20_000)
	var errs []error
	var publishing sync.WaitGroup
	publishing.Go(func() { errs = p.Publish(deadline(t), msgs) })
	for i := range 3 {
		waitReady(t, env.URL, "queue", 1000+4000*i)
		proxy.Cut()
		proxy.Restore()
	}
	publishing.Wait()
	_, unconfirmed, unsent := check(t, msgs, errs, taskIDs(t, ch, "queue"))
	if unconfirmed == 0 || unconfirmed > 3*200 || unsent != 0 {
		t.Errorf("%d unconfirmed, %d unsent", unconfirmed, unsent)
	}
}

// Cancelling stops sending, and the result of each message is correct.
func TestCancelledWhilePublishing(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	ctx, cancel := context.WithCancel(deadline(t))
	msgs := tasks("queue", 50_000)
	var errs []error
	var publishing sync.WaitGroup
	publishing.Go(func() { errs = p.Publish(ctx, msgs) })
	waitReady(t, env.URL, "queue", 500)
	cancel()
	publishing.Wait()
	confirmed, unconfirmed, unsent := check(t, msgs, errs, taskIDs(t, ch, "queue"))
	if confirmed == 0 || unconfirmed != 0 || unsent == 0 {
		t.Errorf("%d confirmed, %d unconfirmed, %d unsent", confirmed, unconfirmed, unsent)
	}
	if err := errs[len(errs)-1]; !errors.Is(err, context.Canceled) {
		t.Errorf("the last one: %v", err)
	}
}

// Closing the publisher while it sends has the same results as cancelling.
func TestClosedWhilePublishing(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	msgs := tasks("queue", 50_000)
	var errs []error
	var publishing sync.WaitGroup
	publishing.Go(func() { errs = p.Publish(deadline(t), msgs) })
	waitReady(t, env.URL, "queue", 500)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	publishing.Wait()
	_, unconfirmed, unsent := check(t, msgs, errs, taskIDs(t, ch, "queue"))
	if unconfirmed != 0 || unsent == 0 || !errors.Is(errs[len(errs)-1], celery.ErrClosed) {
		t.Errorf("%d unconfirmed, %d unsent, the last: %v", unconfirmed, unsent, errs[len(errs)-1])
	}
	if err := p.Publish(deadline(t), msgs[:1])[0]; !errors.Is(err, celery.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Several callers share one connection and its limit of messages in flight.
func TestConcurrentPublishing(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{MaxInFlight: 7})
	var callers sync.WaitGroup
	for i := range 8 {
		queue := fmt.Sprintf("queue-%d", i)
		testenv.Declare(t, ch, queue, nil)
		callers.Go(func() {
			msgs := append(tasks(queue, 300), tasks("missing-"+queue, 50)...)
			errs := p.Publish(deadline(t), msgs)
			for j, err := range errs {
				var returned *celery.ReturnedError
				if j < 300 && err != nil || j >= 300 && !errors.As(err, &returned) {
					t.Errorf("%s: %v", msgs[j].ID, err)
				}
			}
		})
	}
	callers.Wait()
	for i := range 8 {
		queue := fmt.Sprintf("queue-%d", i)
		if ids := taskIDs(t, ch, queue); len(ids) != 300 {
			t.Errorf("%s holds %d tasks", queue, len(ids))
		}
	}
}

// Publish waits for a missing broker until its context ends. Then it reports all messages as unsent.
func TestMissingBroker(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	proxy, url := proxied(t, env.URL)
	proxy.Cut()
	p := publisher(t, parsed.Broker(t, url), celery.PublisherOptions{MaxWait: 50 * time.Millisecond})
	for _, err := range p.Publish(deadline(t), tasks("queue", 2)) {
		if !errors.Is(err, celery.ErrNotSent) || celery.IsPermanent(err) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(deadline(t), 3*time.Second) // long enough for one try
	defer cancel()
	if err := p.DeclareQueue(ctx, "queue"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connecting to ") {
		t.Error(err)
	}
	proxy.Restore()
	testenv.Becomes(t, "the broker is reached within MaxWait", nil, func() error {
		return errors.Join(p.Publish(deadline(t), tasks("queue", 2))...)
	})
}

// If an address fails, the publisher tries the next one, and stays with it while it works.
func TestFailover(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	first, firstURL := proxied(t, env.URL)
	second, secondURL := proxied(t, env.URL)
	first.Cut()
	p := publisher(t, parsed.Broker(t, firstURL+";"+secondURL), celery.PublisherOptions{})
	if err := errors.Join(p.Publish(deadline(t), tasks("queue", 10))...); err != nil {
		t.Fatal(err)
	}
	first.Restore()
	second.Cut()
	testenv.Becomes(t, "the first address takes over", nil, func() error {
		return errors.Join(p.Publish(deadline(t), tasks("queue", 10))...)
	})
}

// If the broker blocks publishers, the publisher waits and logs that.
func TestBlockedBroker(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	x, through := injectBefore(t, env.URL)
	lines := make(logLines, 10)
	p := publisher(t, parsed.Broker(t, through), celery.PublisherOptions{
		MaxWait: time.Minute, Logger: slog.New(slog.NewTextHandler(lines, nil)),
	})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	x.block(t, "low on memory")
	lines.await("the broker blocks publishers; waiting", "low on memory")
	ctx, cancel := context.WithTimeout(deadline(t), 30*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, tasks("queue", 1))[0]; !errors.Is(err, celery.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while blocked: %v", err)
	}
	var published sync.WaitGroup
	published.Go(func() {
		if err := errors.Join(p.Publish(deadline(t), tasks("queue", 5))...); err != nil {
			t.Error(err)
		}
	})
	x.unblock(t)
	published.Wait()
	lines.await("the broker takes messages again")
	if ids := taskIDs(t, ch, "queue"); len(ids) != 5 {
		t.Errorf("the queue holds %v", ids)
	}
}

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// await waits for a line that contains all the parts.
func (l logLines) await(parts ...string) {
	for line := range l {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
}

// A broker may stop reading in the middle of a message. If the context ends, Publish returns within a bounded time, with
// a result for each message.
func TestStuckBroker(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	x, through := injectBefore(t, env.URL)
	p := publisher(t, parsed.Broker(t, through), celery.PublisherOptions{ConfirmTimeout: 50 * time.Millisecond})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	msgs := tasks("queue", 100)
	for i := range msgs {
		msgs[i].Args = []byte(`["` + strings.Repeat("x", 1<<20) + `"]`) // larger than the sockets' buffers
	}
	x.flow.Lock()
	var flow sync.Once
	resume := func() { flow.Do(x.flow.Unlock) }
	defer resume()
	ctx, cancel := context.WithTimeout(deadline(t), 3*time.Second) // long enough to send some messages
	defer cancel()
	errs := p.Publish(ctx, msgs)
	resume()
	_, unconfirmed, unsent := check(t, msgs, errs, taskIDs(t, ch, "queue"))
	if unconfirmed == 0 || unsent == 0 {
		t.Errorf("%d unconfirmed, %d unsent", unconfirmed, unsent)
	}
}

// A stuck write delays only its own call. Once that call's context ends, the others use another connection, and the
// stuck connection is closed. A call that waits behind the write ends with its own context.
func TestStuckWriteHoldsUpOnlyItsCall(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	testenv.Declare(t, ch, "other", nil)
	x, through := injectBefore(t, env.URL)
	x.onlyFirst.Store(true)
	const confirmTimeout, stuckTime = 5 * time.Second, 12 * time.Second // shorter than the heartbeat's timeout
	p := publisher(t, parsed.Broker(t, through), celery.PublisherOptions{ConfirmTimeout: confirmTimeout})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	first, _, _ := p.Session()
	x.flow.Lock()
	resume := sync.OnceFunc(x.flow.Unlock)
	defer resume()
	msgs := tasks("queue", 50)
	for i := range msgs {
		msgs[i].Args = []byte(`["` + strings.Repeat("x", 1<<20) + `"]`) // larger than the sockets' buffers
	}
	var errs []error
	var returned time.Time
	began := time.Now()
	var stuck sync.WaitGroup
	stuck.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), stuckTime)
		defer cancel()
		errs = p.Publish(ctx, msgs)
		returned = time.Now()
	})
	// The call sends until the sockets' buffers are full. On a busy machine one message may take a second.
	for sent, since := 0, time.Now(); sent < 2 || time.Since(since) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, _, unanswered := p.Session(); unanswered != sent {
			sent, since = unanswered, time.Now()
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	at := time.Now()
	if err := p.Publish(short, tasks("other", 1))[0]; !errors.Is(err, celery.ErrNotSent) {
		t.Errorf("a message behind the stuck one: %v", err)
	}
	if took := time.Since(at); took > 3*time.Second {
		t.Errorf("a call that may take half a second took %s", took)
	}
	if err := p.Publish(deadline(t), tasks("other", 1))[0]; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > stuckTime+confirmTimeout {
		t.Errorf("another queue's message was sent after %s", took)
	}
	healthy, _, _ := p.Session()
	if healthy == first {
		t.Error("it went over the connection that is stuck")
	}
	stuck.Wait()
	if took := returned.Sub(began); took > stuckTime+confirmTimeout+5*time.Second {
		t.Errorf("the stuck call took %s", took)
	}
	if now, _, _ := p.Session(); now != healthy {
		t.Error("the connection of the others was closed")
	}
	if err := p.Publish(deadline(t), tasks("other", 1))[0]; err != nil {
		t.Error(err)
	}
	if now, _, _ := p.Session(); now != healthy {
		t.Error("the others needed a new connection")
	}
	resume()
	if _, unconfirmed, unsent := check(t, msgs, errs, taskIDs(t, ch, "queue")); unconfirmed == 0 || unsent == 0 {
		t.Errorf("%d unconfirmed, %d unsent", unconfirmed, unsent)
	}
}

// A connection that is retired during a send stays open for the confirmation. Messages that wait go over the next
// connection.
func TestRetiredWhilePublishing(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	url, proxy := testenv.Through(t, env.URL, testenv.BrokerProxy)
	p := publisher(t, parsed.Broker(t, url), celery.PublisherOptions{})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	first, _, _ := p.Session()
	msgs := tasks("queue", 2)
	msgs[0].Args = []byte(`["` + strings.Repeat("x", 15<<20) + `"]`) // larger than the sockets' buffers
	errs := make([]error, len(msgs))
	var publishing sync.WaitGroup
	publish := func(i int) { publishing.Go(func() { errs[i] = p.Publish(deadline(t), msgs[i:i+1])[0] }) }
	slots := func() int { _, n, _ := p.Session(); return n }

	reached := proxy.Hold(testenv.Publishes, 0)
	publish(0)
	<-reached
	publish(1)
	testenv.Becomes(t, "messages that hold a slot", 2, slots)
	if _, _, unanswered := p.Session(); unanswered != 1 {
		t.Errorf("%d messages count as unanswered, want the one that is being sent", unanswered)
	}
	p.Retire()
	proxy.Release()
	publishing.Wait()
	if confirmed, _, _ := check(t, msgs, errs, taskIDs(t, ch, "queue")); confirmed != len(msgs) {
		t.Errorf("%d of %d messages are confirmed: %v", confirmed, len(msgs), errs)
	}
	if now, _, _ := p.Session(); now == first {
		t.Error("a message was sent over a connection that was retired before")
	}
}

// Close ends connections that stay open for late answers, however long its calls need to end.
func TestCloseEndsRetiredConnections(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	testenv.Declare(t, ch, "other", nil)
	url, proxy := testenv.Through(t, env.URL, testenv.BrokerProxy)
	p := publisher(t, parsed.Broker(t, url), celery.PublisherOptions{ConfirmTimeout: 500 * time.Millisecond})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	first, _, _ := p.Session()
	proxy.Hold(testenv.Confirms, 0)
	var publishing sync.WaitGroup
	publish := func(ctx context.Context, queue string) {
		publishing.Go(func() {
			if err := p.Publish(ctx, tasks(queue, 1))[0]; !errors.Is(err, celery.ErrUnconfirmed) {
				t.Errorf("%s: %v", queue, err)
			}
		})
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	publish(short, "queue")
	publishing.Wait()

	publish(deadline(t), "other")
	testenv.Becomes(t, "sent over another connection", true, func() bool {
		now, _, unanswered := p.Session()
		return now != first && unanswered == 1
	})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = p.Close()
	}()
	publishing.Wait()
	proxy.Release()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Errorf("Close waits for %d connections that nothing closes", proxy.Connections())
		proxy.Cut()
		<-closed
	}
}

// The publisher closes a silent connection after three heartbeats.
func TestSilentBroker(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	x, through := injectBefore(t, env.URL)
	p := publisher(t, parsed.Broker(t, through+"?heartbeat=1;"+env.URL), celery.PublisherOptions{})
	if err := p.Connect(deadline(t)); err != nil {
		t.Fatal(err)
	}
	x.m.Lock() // nothing reaches the client from here on
	defer x.m.Unlock()
	msgs := tasks("queue", 3)
	for i, err := range p.Publish(deadline(t), msgs) {
		if !errors.Is(err, celery.ErrUnconfirmed) {
			t.Errorf("%s: %v", msgs[i].ID, err)
		}
	}
}

// DeclareQueue leaves an existing queue as it is, and declares a missing one as Celery does.
func TestDeclareQueue(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ctx := deadline(t)
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	existing := map[string]amqp.Table{
		"quorum":    {"x-queue-type": "quorum"},
		"priority":  {"x-max-priority": int32(9)},
		"ttl":       {"x-message-ttl": int32(60_000)},
		"names / %": {"x-max-length": int32(10)},
	}
	ch := testenv.Channel(t, env.URL)
	for queue, arguments := range existing {
		testenv.Declare(t, ch, queue, arguments)
	}
	if err := ch.ExchangeDeclare("fanout", amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for queue := range existing {
		for range 2 {
			if err := p.DeclareQueue(ctx, queue); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(p.Publish(ctx, tasks(queue, 3))...); err != nil {
			t.Error(err)
		}
	}
	// If the two declarations differ, the broker returns an error.
	python := startPeer(t, env.URL)
	for _, queue := range []string{"ours first", "fanout"} {
		if err := p.DeclareQueue(ctx, queue); err != nil {
			t.Error(err)
		}
	}
	if e := python.send(celery.TaskMessage{ID: "1", Name: "swh.test.Task", Queue: "ours first"}, nil); e != "" {
		t.Error(e)
	}
	if e := python.send(celery.TaskMessage{ID: "1", Name: "swh.test.Task", Queue: "theirs first"}, nil); e != "" {
		t.Error(e)
	}
	if err := p.DeclareQueue(ctx, "theirs first"); err != nil {
		t.Error(err)
	}
	ours, theirs := bindings(t, env, "ours first"), bindings(t, env, "theirs first")
	if strings.ReplaceAll(ours, "ours", "theirs") != theirs {
		t.Errorf("bindings differ: %v and %v", ours, theirs)
	}
}
