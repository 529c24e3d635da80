package listener

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Malformed events are counted by the kind of fault. The other events of their messages are applied.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	l := newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn))
	x := newExchange(t, broker.URL)
	bad := []struct {
		body    string
		problem Problem // none: it is merely ignored
	}{
		{``, BadBody},
		{`nonsense`, BadBody},
		{"\xff\xfe\x00", BadBody},
		{`[`, BadBody},
		{`[{"type": "task-started"`, BadBody},
		{strings.Repeat("[", 100_000), BadBody},
		{`null`, BadEvent},
		{`1`, BadEvent},
		{`"task-started"`, BadEvent},
		{`[1, 2]`, BadEvent},
		{`[[{"type": "task-started", "uuid": "run-0"}]]`, BadEvent},
		{`{"uuid": "x"}`, BadEvent},
		{`{"type": null, "uuid": "x"}`, BadEvent},
		{`{"type": ["task-started"], "uuid": "x"}`, BadEvent},
		{`{"type": "task-started", "uuid": 5}`, BadUUID},
		{`{"type": "task-started", "uuid": ["run-0"]}`, BadUUID},
		{`{"type": "task-started", "uuid": "run-0\u0000"}`, BadUUID},
		{`{"type": "task-started", "uuid": "` + strings.Repeat("x", 10_000) + `"}`, BadUUID},
		{`{"type": "task-result", "uuid": "run-0"}`, BadResult},
		{`{"type": "task-result", "uuid": "run-0", "result": {"status": "excellent"}}`, BadStatus},
		{`{"type": "task-result", "uuid": "run-0", "result": {"status": "\u0000"}}`, BadStatus},
		{`{"type": "task-result", "uuid": "other", "result": {"status": {}}}`, BadStatus},
		{strings.Repeat("x", 5<<20), TooLarge},
		{`[]`, ""},
		{`{"type": "worker-heartbeat", "hostname": "worker@host", "freq": 2.0}`, ""},
		{`{"type": "task-started"}`, ""},
		{`{"type": "task-started", "uuid": null}`, ""},
		{`{"type": "task-\ud800", "uuid": "run-0"}`, ""},
		{`{"type": "task-started", "uuid": "run-\udfff"}`, ""},
	}
	want := map[Problem]int{}
	var bodies [][]byte
	for i, b := range bad {
		pg.addTask(t, "good", "recurring", name("run", i))
		good := startedEvent(name("run", i))
		bodies = append(bodies, []byte(b.body), message(t, good))
		if b.problem != "" {
			want[b.problem]++
			if b.problem == BadEvent && b.body == "[1, 2]" {
				want[b.problem]++ // two events
			}
		}
	}
	x.publish(t, bodies...)
	stop := start(t, l)
	testenv.Becomes(t, "started runs", len(bad), func() int { return pg.count(t, "run", "started") })
	stop()
	if left := x.ready(t); left != 0 {
		t.Errorf("%d messages left", left)
	}
	for _, p := range problems {
		if got := testutil.ToFloat64(l.metrics.malformed.WithLabelValues(string(p))); got != float64(want[p]) {
			t.Errorf("problem %s counted %v times, want %d", p, got, want[p])
		}
	}
	// Those that should have ended a run of ours can be looked at.
	if got := pg.rejections(t); len(got) != 3 {
		t.Errorf("rejected events: %q", got)
	}
}

// Texts that PostgreSQL or the log can't store as they are don't prevent the end of a run.
func TestHardTexts(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	l := newTestListener(t, nil, openStore(t, pg.dsn))
	long := strings.Repeat("long ", 500_000)
	for i, c := range []struct{ traceback, want string }{
		{`"a\nb\u0000c"`, "bc"},
		{`"\ud83d\ude00"`, "😀"},
		{`"half \ud83d pair"`, "half \ufffd pair"},
		{`"` + strings.Repeat(`frame\n`, 300_000) + `E: no"`, "E: no"},
		{`"` + long + `"`, strings.TrimSpace(long)},
	} {
		id := name("run", i)
		pg.addTask(t, "good", "recurring", id)
		feed(t, l, fmt.Appendf(nil, `{"type": "task-failed", "uuid": %q, "traceback": %s}`, id, c.traceback))
		got := testenv.Value[string](t, pg.pool, `select metadata->>'error' from task_run where backend_id = $1`, id)
		if got != c.want {
			t.Errorf("error %.80q (%d bytes), want %.80q", got, len(got), c.want)
		}
	}
}

// If PostgreSQL refuses a batch, only the events at fault are set aside, with the reason. All others are applied.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	l := newTestListener(t, nil, openStore(t, pg.dsn))
	const n = 50
	pg.addTasks(t, n, "run")
	guilty := []int{3, 20, 21, n - 1}
	for _, i := range guilty {
		pg.exec(t, `update task set type = 'broken' where id = (select task from task_run where backend_id = $1)`, name("run", i))
	}
	feed(t, l, streams(t, "run", n)...)
	if got := pg.count(t, "run", "eventful"); got != n-len(guilty) {
		t.Errorf("%d runs ended, want %d", got, n-len(guilty))
	}
	if got := pg.count(t, "run", "started"); got != len(guilty) {
		t.Errorf("%d runs only started, want %d", got, len(guilty))
	}
	got := pg.rejections(t)
	for i := range got {
		if want := name("run", guilty[i]) + "|ended as eventful|22012|"; !strings.HasPrefix(got[i], want) || !strings.Contains(got[i], "division by zero") {
			t.Errorf("rejected event %q, want %q and a division by zero", got[i], want)
		}
	}
	if len(got) != len(guilty) || testutil.ToFloat64(l.metrics.rejected) != float64(len(guilty)) {
		t.Errorf("%d rejected events kept, %v counted", len(got), testutil.ToFloat64(l.metrics.rejected))
	}
}

// The listener counts events of tasks by type, as the Python scheduler does, but only types of Celery: the number
// of others is unbounded.
func TestEventsOfTasksAreCounted(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &nothing{})
	feed(t, l, []byte(`[{"type": "task-started", "uuid": "u"}, {"type": "worker-heartbeat", "hostname": "h"}, {"type": "task-sent"}, {"type": "task-x", "uuid": "u"}]`))
	for eventType, want := range map[string]float64{"task-started": 1, "task-sent": 0, "other": 1} {
		if got := testutil.ToFloat64(l.metrics.events.WithLabelValues(eventType)); got != want {
			t.Errorf("%s: %v counted, want %v", eventType, got, want)
		}
	}
}

// nothing is a store that takes everything.
type nothing struct{ outcomes int }

func (*nothing) Now() time.Time { return time.Now() }

func (n *nothing) ApplyInTurn(_ context.Context, o []settle.Outcome, _ func()) error {
	n.outcomes += len(o)
	return nil
}
func (*nothing) RejectEvents(context.Context, []db.RejectedEvent) error { return nil }

// No bytes stop the listener, and no message yields more outcomes than it has events.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`[{"type": "task-started", "uuid": "u", "hostname": "h", "timestamp": 1.5}]`,
		`{"type": "task-result", "uuid": "u", "result": {"status": "failed", "error": "x"}}`,
		`{"type": "task-failed", "uuid": "u", "traceback": "a\nb"}`,
		`{"type": "task-succeeded", "uuid": "u", "runtime": 1e9}`,
		`[1, {"uuid": 0}]`, `{"type": "task-result", "uuid": "u", "result": [NaN]}`,
	} {
		f.Add([]byte(seed))
	}
	for _, c := range ends {
		body := testenv.Read(f, endFile(c.name))
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l := newTestListener(t, nil, &nothing{})
		b := newBatch(firstTurn())
		l.read(b, delivery(body))
		if len(b.outcomes)+len(b.rejected) > b.events {
			t.Errorf("%d outcomes and %d rejections of %d events", len(b.outcomes), len(b.rejected), b.events)
		}
		for _, o := range b.outcomes {
			tells := 0
			for _, set := range []bool{o.Start != nil, o.End != nil, o.Runtime != nil} {
				if set {
					tells++
				}
			}
			if o.BackendID == "" || tells != 1 || o.End != nil && o.End.TimedOut && o.End.Status != model.RunFailed {
				t.Errorf("outcome %+v", o)
			}
		}
	})
}
