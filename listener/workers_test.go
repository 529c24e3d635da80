package listener

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

// A worker is online from its first event until it sends worker-offline or has been silent for a minute.
func TestWorkersOnline(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after  time.Duration
		event  string
		worker string
		want   int
	}{
		{0, "worker-online", "a", 1},
		{time.Second, "worker-heartbeat", "a", 1},
		{time.Second, "worker-heartbeat", "b", 2},
		{50 * time.Second, "worker-heartbeat", "c", 3},
		{9 * time.Second, "worker-offline", "b", 2},
		{time.Second, "worker-heartbeat", "c", 1}, // a has been silent for more than a minute
		{0, "worker-offline", "never seen", 1},
		{2 * time.Minute, "worker-promoted", "d", 0},
	} {
		now = now.Add(step.after)
		w.record(step.event, step.worker, 0, now)
		if got := w.online(now); got != step.want {
			t.Errorf("after %s of %s: %d online, want %d", step.event, step.worker, got, step.want)
		}
	}
}

// Daemons' rows list each online worker's ends of the last five whole minutes, and its active tasks by its last
// heartbeat. Ends of workers without events of their own are not counted.
func TestWorkersInDaemonState(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w.end("a", "unheard", true, begin)
	var last time.Time
	for minute := range 8 {
		last = begin.Add(time.Duration(minute) * time.Minute)
		w.record("worker-heartbeat", "a", minute, last)
		w.end("a", fmt.Sprint(minute), minute%2 == 0, last)
	}
	w.record("worker-heartbeat", "idle", 0, last)
	// The minute in progress is the seventh; 2 to 6 count.
	want := map[string]db.Worker{"a": {LastEvent: last, Active: 7, Ended: 5, Failed: 3}, "idle": {LastEvent: last}}
	if diff := cmp.Diff(want, w.list(last.Add(59*time.Second))); diff != "" {
		t.Error(diff)
	}
	if listed := w.list(last.Add(2 * time.Minute)); len(listed) != 0 {
		t.Errorf("silent workers are listed: %v", listed)
	}
}

// An end counts once for its worker, although the broker may redeliver it and Celery reports a killed task as
// revoked and as failed.
func TestEndsReceivedTwiceCountOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := New(Options{Store: stopped{now: now}, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	for _, worker := range []string{"a", "b"} {
		l.workers.record("worker-heartbeat", worker, 0, now)
	}
	for range 2 {
		for _, event := range []string{
			`{"type": "task-failed", "uuid": "1", "hostname": "a"}`,
			`{"type": "task-revoked", "uuid": "1", "hostname": "a"}`,
			`{"type": "task-result", "uuid": "2", "hostname": "a", "result": {"status": "eventful"}}`,
			`{"type": "task-failed", "uuid": "1", "hostname": "b"}`, // the broker gave it to another worker
		} {
			l.read(newBatch(firstTurn()), celery.Delivery{Body: []byte(event), ContentType: "application/json"})
		}
	}
	want := map[string]db.Worker{"a": {LastEvent: now, Ended: 2, Failed: 1}, "b": {LastEvent: now, Ended: 1, Failed: 1}}
	if diff := cmp.Diff(want, l.workers.list(now.Add(time.Minute))); diff != "" {
		t.Error(diff)
	}
}

// stopped is a database whose clock stands still.
type stopped struct {
	Store
	now time.Time
}

func (s stopped) Now() time.Time { return s.now }

// Only the most recent ends are stored.
func TestWorkersEndsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w.record("worker-heartbeat", "a", 0, now)
	for i := range 5 * maxEnds {
		w.end("a", fmt.Sprint(i), false, now)
		w.end("a", fmt.Sprint(max(0, i-maxEnds+1)), false, now)
	}
	if got := w.list(now.Add(time.Minute))["a"].Ended; got != 5*maxEnds {
		t.Errorf("%d ends, want %d", got, 5*maxEnds)
	}
	if n := len(w.ended) + len(w.endedBefore); n > 2*maxEnds {
		t.Errorf("%d ends are remembered, want %d at most", n, 2*maxEnds)
	}
}

// The listener dates workers by the database's clock, whatever the host's clock is.
func TestWorkersByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	l := New(Options{Store: behind{}, Registerer: prometheus.NewRegistry()})
	l.workers.record("worker-online", "a", 0, l.Store.Now())
	if listed := l.Workers(); len(listed) != 1 {
		t.Errorf("listed %v, want one worker", listed)
	}
}

// behind is a database whose clock is two minutes behind the host's.
type behind struct{ Store }

func (behind) Now() time.Time { return time.Now().Add(-2 * time.Minute) }

// Invented worker names neither fill the memory nor exclude real workers for long.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorkers()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for i := range maxWorkers + 10 {
		w.record("worker-heartbeat", fmt.Sprint(i), 0, now)
	}
	if got := w.online(now); got != maxWorkers {
		t.Errorf("%d workers remembered, want %d", got, maxWorkers)
	}
	if listed := w.list(now); len(listed) != maxListed {
		t.Errorf("%d workers are listed of, want %d", len(listed), maxListed)
	}
	now = now.Add(2 * time.Minute)
	w.record("worker-heartbeat", "real", 0, now)
	if got := w.online(now); got != 1 {
		t.Errorf("%d workers online, want 1", got)
	}
}

// Metrics can be gathered while events arrive.
func TestWorkersAtOnce(t *testing.T) {
	t.Parallel()
	w, now := newWorkers(), time.Now()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 100 {
				w.record([]string{"worker-online", "worker-offline"}[n%2], fmt.Sprint(i), 0, now)
				w.end(fmt.Sprint(i), fmt.Sprint(n), n%3 == 0, now)
				w.list(now)
				w.online(now)
			}
		})
	}
	all.Wait()
	if n := w.online(now); n != 0 {
		t.Errorf("%d are online after they said goodbye", n)
	}
}
