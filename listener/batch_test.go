package listener

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/settle"
)

// script is a source that sends what it is told, as fast as it is taken.
type script struct {
	bodies [][]byte
	acks   atomic.Int64
	closed atomic.Bool
	err    error // what Run returns at once after the last body, if not nil
}

func (s *script) Run(ctx context.Context, out chan<- celery.Delivery) error {
	for _, body := range s.bodies {
		select {
		case out <- delivery(body):
		case <-ctx.Done():
			return nil
		}
	}
	if s.err != nil {
		return s.err
	}
	<-ctx.Done()
	return nil
}

func (s *script) AckUpTo(celery.Delivery) error {
	s.acks.Add(1)
	return nil
}

func (s *script) Close() error {
	s.closed.Store(true)
	return nil
}

// notebook is a store that notes when it is called and with how much.
type notebook struct {
	nothing
	began time.Time
	m     sync.Mutex
	calls []call
	err   error
}

type call struct {
	At       time.Duration
	Outcomes int
}

func (n *notebook) ApplyInTurn(_ context.Context, o []settle.Outcome, _ func()) error {
	n.m.Lock()
	defer n.m.Unlock()
	n.calls = append(n.calls, call{time.Since(n.began), len(o)})
	return n.err
}

// A batch ends at its bound of events, messages or bytes, or a tenth of a second after its first message.
func TestBatchBounds(t *testing.T) {
	t.Parallel()
	small := message(t, startedEvent("x"))
	ten := message(t, startedEvent("1"), startedEvent("2"), startedEvent("3"), startedEvent("4"), startedEvent("5"),
		startedEvent("6"), startedEvent("7"), startedEvent("8"), startedEvent("9"), startedEvent("10"))
	large := message(t, taskEvent("task-failed", "x", 1).with("traceback", strings.Repeat("x", 3<<20)))
	for name, c := range map[string]struct {
		body []byte
		n    int
		want []call
	}{
		"one":            {small, 1, []call{{maxDelay, 1}}},
		"many messages":  {small, 1200, []call{{0, 500}, {0, 500}, {maxDelay, 200}}},
		"many events":    {ten, 450, []call{{0, 2000}, {0, 2000}, {maxDelay, 500}}},
		"large messages": {large, 7, []call{{0, 3}, {0, 3}, {maxDelay, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bodies := make([][]byte, c.n)
			for i := range bodies {
				bodies[i] = c.body
			}
			synctest.Test(t, func(t *testing.T) {
				source, store := &script{bodies: bodies}, &notebook{began: time.Now()}
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					time.Sleep(time.Second)
					cancel()
				}()
				if err := newTestListener(t, source, store).Run(ctx); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(c.want, store.calls); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
				if got := source.acks.Load(); got != int64(len(c.want)) || !source.closed.Load() {
					t.Errorf("%d acknowledgements, closed: %t", got, source.closed.Load())
				}
			})
		})
	}
}

// While the database is unreachable, the listener retries its batch with back-off. Stopped then, it leaves the
// batch unacknowledged.
func TestStopWhileDatabaseIsAway(t *testing.T) {
	t.Parallel()
	body := message(t, startedEvent("x"))
	synctest.Test(t, func(t *testing.T) {
		source := &script{bodies: [][]byte{body}}
		store := &notebook{began: time.Now(), err: errors.New("away")}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5*time.Minute + time.Millisecond)
			cancel()
		}()
		if err := newTestListener(t, source, store).Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(store.began); took > 5*time.Minute+time.Second {
			t.Errorf("stopped after %s", took)
		}
		if n := len(store.calls); n < 10 || n > 200 { // about 60: the waits are up to 10 s, at random
			t.Errorf("%d tries in five minutes", n)
		}
		if source.acks.Load() != 0 {
			t.Error("acknowledged what was not written")
		}
	})
}

// hanging is a store whose first calls don't answer before their contexts end.
type hanging struct {
	nothing
	calls, answers atomic.Int64
	hangs          int64
}

func (h *hanging) ApplyInTurn(ctx context.Context, _ []settle.Outcome, _ func()) error {
	if h.calls.Add(1) <= h.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	h.answers.Add(1)
	return nil
}

// A database that doesn't answer within a minute ends the try; the batch is tried again.
func TestDatabaseHangs(t *testing.T) {
	t.Parallel()
	body := message(t, startedEvent("x"))
	synctest.Test(t, func(t *testing.T) {
		source, store := &script{bodies: [][]byte{body}}, &hanging{hangs: 1}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(writeTimeout+time.Minute, cancel)
		if err := newTestListener(t, source, store).Run(ctx); err != nil {
			t.Error(err)
		}
		if store.answers.Load() != 1 || source.acks.Load() != 1 {
			t.Errorf("applied %d times, acknowledged %d times", store.answers.Load(), source.acks.Load())
		}
	})
}

// While the database hangs for hours, the listener counts as alive, keeps its batch and reports it in the metrics.
// A listener that itself makes no progress counts as stuck.
func TestListenerIsAliveWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := float64(time.Now().Add(-time.Minute).Unix())
		source, store := &script{bodies: [][]byte{message(t, taskEvent("task-started", "x", sent))}}, &hanging{hangs: 200}
		l := newTestListener(t, source, store)
		health := service.NewHealth()
		ctx, cancel := context.WithCancel(service.WithHealth(t.Context(), health))
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for range 60 {
			time.Sleep(2 * time.Minute)
			if stuck := health.StuckLoops(); len(stuck) > 0 {
				t.Fatalf("after %d tries: %q", store.calls.Load(), stuck)
			}
		}
		if waits := health.NotReady(); len(waits) == 0 {
			t.Error("ready")
		}
		silence, behind := l.metrics.lag.sinceLastEvent(time.Now()), l.metrics.lag.seconds(time.Now())
		if silence < 7200 || behind < 7260 {
			t.Errorf("silent for %g s, %g s behind", silence, behind)
		}
		time.Sleep(4 * time.Hour)
		if behind := l.metrics.lag.seconds(time.Now()); source.acks.Load() != 1 || behind < 200*60 {
			t.Errorf("%d acknowledgements, %g s behind", source.acks.Load(), behind)
		}
		if silence := l.metrics.lag.sinceLastEvent(time.Now()); silence > 3*3600 {
			t.Errorf("silent for %g s", silence)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := &stubborn{heal: make(chan bool)}
		health := service.NewHealth()
		ctx, cancel := context.WithCancel(service.WithHealth(t.Context(), health))
		ended := make(chan error)
		l := newTestListener(t, &script{bodies: [][]byte{message(t, startedEvent("x"))}}, store)
		go func() { ended <- l.Run(ctx) }()
		time.Sleep(time.Hour)
		if stuck := health.StuckLoops(); len(stuck) != 1 {
			t.Errorf("stuck: %q", stuck)
		}
		close(store.heal)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// stubborn is a store that doesn't hear when its time is over.
type stubborn struct {
	nothing
	heal chan bool
}

func (d *stubborn) ApplyInTurn(context.Context, []settle.Outcome, func()) error {
	<-d.heal
	return nil
}

// Messages that are not written by the end of the grace period stay unacknowledged.
func TestBatchCutOffIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	body := message(t, startedEvent("x"))
	synctest.Test(t, func(t *testing.T) {
		source, store := &script{bodies: [][]byte{body}}, &hanging{hangs: 100}
		l := newTestListener(t, source, store)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := service.Group{Log: l.Log, Grace: 10 * time.Second}.Run(ctx, service.Component{Name: "listener", Run: l.Run})
		if !errors.Is(err, service.ErrForced) {
			t.Errorf("ended with %v", err)
		}
		if source.acks.Load() != 0 || store.calls.Load() != 1 {
			t.Errorf("%d tries, acknowledged %d times", store.calls.Load(), source.acks.Load())
		}
	})
}

// If the source ends with an error, the listener applies what it received and returns that error.
func TestSourceEnds(t *testing.T) {
	t.Parallel()
	body := message(t, startedEvent("x"))
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		source, store := &script{bodies: [][]byte{body}, err: gone}, &notebook{began: time.Now()}
		if err := newTestListener(t, source, store).Run(t.Context()); !errors.Is(err, gone) {
			t.Errorf("error %v, want %v", err, gone)
		}
		if len(store.calls) != 1 || source.acks.Load() != 1 {
			t.Errorf("batches %v, %d acknowledgements", store.calls, source.acks.Load())
		}
	})
}

// Each kind of malformed input is logged once a minute with its count since the last line. The metrics count all
// of it.
func TestFaultsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &strings.Builder{}
		l := newTestListener(t, &script{}, &nothing{})
		l.Log = textLog(log)
		for range 150 { // seconds
			l.complain(BadBody, "x\ny")
			l.complain(BadUUID, strings.Repeat("é", 1000))
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 6 || !strings.Contains(lines[5], "not_logged_before=59") || len(lines[5]) > 2*excerptLength+200 {
			t.Errorf("log:\n%s", log)
		}
		if got := testutil.ToFloat64(l.metrics.malformed.WithLabelValues(string(BadBody))); got != 150 {
			t.Errorf("%v counted, want 150", got)
		}
	})
}

// If a message's last event fills the batch, the message is acknowledged with that batch.
func TestFullBatchEndsWithItsMessage(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &notebook{})
	b := newBatch(firstTurn())
	bodies := streams(t, "run", maxEvents/2)
	for _, body := range bodies {
		l.read(b, delivery(body))
	}
	if !b.full() || l.unread != nil || !bytes.Equal(b.last.Body, bodies[len(bodies)-1]) {
		t.Errorf("full: %t, something is unread: %t; the last message that is read whole is %.80s", b.full(), l.unread != nil, b.last.Body)
	}
}
