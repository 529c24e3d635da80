package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// laned is a task type with an express and a slow lane on a real database and
// broker, whose events are made by the test.
type laned struct {
	*bench
	t         *testing.T
	tt        model.TaskType
	q         dispatch.Queue
	slots     *dispatch.Slots
	deliverer *dispatch.Deliverer
	now       time.Time
	next      int // number of the next URL
}

const lanedQueue = "swh.loader.git"

func newLaned(t *testing.T, lanes ...model.Lane) *laned {
	b := newBench(t)
	limit := int64(1000)
	l := &laned{bench: b, t: t, now: time.Now().UTC(), tt: model.TaskType{Type: "load-git", BackendName: lanedQueue, MaxQueueLength: &limit}}
	l.exec(`insert into task_type (type, description, backend_name, max_queue_length, num_retries) values ('load-git', '', $1, 1000, 2)`, lanedQueue)
	l.q = dispatch.Queue{Name: lanedQueue, Limit: &limit}.WithLanes("load-git", l.tt, map[string][]model.Lane{"load-git": lanes})
	l.deliverer = b.deliverer(t, b.publisher)
	l.slots = dispatch.NewSlots(b.store, b.inspector, l.deliverer.Wake)
	return l
}

// two are an express and a slow lane of so many slots.
func two(express, slow int) []model.Lane {
	return []model.Lane{
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 66 * time.Second, Slots: express, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: 15 * time.Minute, TimeLimit: 16 * time.Minute, Slots: slow, MinSlots: 1},
	}
}

func (l *laned) exec(statement string, args ...any) {
	l.t.Helper()
	testenv.Exec(l.t, l.store.Pool(), statement, args...)
}

func (l *laned) count(query string, args ...any) int {
	l.t.Helper()
	return testenv.Value[int](l.t, l.store.Pool(), "select count(*) from "+query, args...)
}

// claim claims at most most new visits, and sends as far as there are slots.
func (l *laned) claim(most int) int {
	l.t.Helper()
	return l.claimWith(func(free int) int { return min(free, most) })
}

// claimed claims n new visits regardless of free slots, and sends as far as there are slots.
func (l *laned) claimed(n int) {
	l.t.Helper()
	l.claimWith(func(int) int { return n })
}

func (l *laned) claimWith(count func(free int) int) int {
	l.t.Helper()
	n, err := claimWith(l.t.Context(), l.slots, l.q, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
		rows := make([]ledger.Work, count(free))
		for i := range rows {
			kwargs := fmt.Sprintf(`{"url": "https://forge.example/%d", "lister_name": "gitea"}`, l.next)
			l.next++
			rows[i] = ledger.Work{TaskID: uuid.New(), Home: l.q.Name, TaskName: lanedQueue, Args: json.RawMessage("[]"), Kwargs: json.RawMessage(kwargs), Claimed: l.now}
		}
		return rows, nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// keep sends as far as there are slots.
func (l *laned) keep() {
	l.t.Helper()
	if err := l.slots.SendBacklogs(l.t.Context(), l.q); err != nil {
		l.t.Fatal(err)
	}
}

// piece is an outgoing message.
type piece struct {
	number     int // of its URL
	id, root   uuid.UUID
	soft, hard float64
}

// outboxOf returns the outgoing messages of a queue, in order.
func (l *laned) outboxOf(queue string) []piece {
	l.t.Helper()
	rows, err := l.store.Pool().Query(l.t.Context(), `select substring(kwargs ->> 'url' from '[0-9]+$')::int, task_id,
		coalesce(root_id, '00000000-0000-0000-0000-000000000000'), soft_limit, hard_limit
		from scheduler_go.work where state = 'outgoing' and queue = $1 order by place`, queue)
	if err != nil {
		l.t.Fatal(err)
	}
	var pieces []piece
	for rows.Next() {
		var p piece
		if err := rows.Scan(&p.number, &p.id, &p.root, &p.soft, &p.hard); err != nil {
			l.t.Fatal(err)
		}
		pieces = append(pieces, p)
	}
	if rows.Err() != nil {
		l.t.Fatal(rows.Err())
	}
	return pieces
}

func numbers(pieces []piece) []int {
	var n []int
	for _, p := range pieces {
		n = append(n, p.number)
	}
	return n
}

// sent marks messages as confirmed, as if workers had received them.
func (l *laned) sent() {
	l.exec("delete from scheduler_go.work where state = 'outgoing' and lane_set is null and share_group is null")
	l.exec("update scheduler_go.work set state = 'sent' where state = 'outgoing'")
}

func (l *laned) apply(outcomes ...settle.Outcome) {
	l.t.Helper()
	if err := (settle.Store{Store: l.store}).ApplyOutcomes(l.t.Context(), outcomes); err != nil {
		l.t.Fatal(err)
	}
}

func (l *laned) start(id uuid.UUID) settle.Outcome {
	return settle.Outcome{BackendID: id.String(), Received: l.now, Start: &settle.Start{EventTime: float64(l.now.Unix())}}
}

// over returns the outcome of a message that timed out some time after its start.
func (l *laned) over(id uuid.UUID, after time.Duration) settle.Outcome {
	ended := l.now.Add(after)
	return settle.Outcome{BackendID: id.String(), Received: ended, End: &settle.End{
		Status: model.RunFailed, Error: new("TimeLimitExceeded(66)"), TimedOut: true, EventTime: float64(ended.Unix()),
	}}
}

func (l *laned) done(id uuid.UUID, took time.Duration) settle.Outcome {
	return settle.Outcome{BackendID: id.String(), Received: l.now.Add(took), Runtime: &took}
}

// Work without a recorded runtime goes to the express lane. What waits beyond its slots uses free slots of the
// slow lane. Each message has its lane's limits.
func TestLanesTakeWhatWaits(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 2)...)
	if n := l.claim(100); n != 6 {
		t.Errorf("%d claimed, want 6: as many as there are slots", n)
	}
	// The first four were claimed for the express lane, where two more wait.
	express, slow := l.outboxOf("express:"+lanedQueue), l.outboxOf(lanedQueue)
	if diff := cmp.Diff([][]int{{2, 3, 4, 5}, {0, 1}}, [][]int{numbers(express), numbers(slow)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range express {
		if p.soft != 60 || p.hard != 66 || p.root != uuid.Nil {
			t.Errorf("express: %+v", p)
		}
	}
	for _, p := range slow {
		if p.soft != 900 || p.hard != 960 || p.root != uuid.Nil {
			t.Errorf("slow: %+v", p)
		}
	}
	if n := l.claim(100); n != 0 {
		t.Errorf("%d claimed of full lanes", n)
	}
}

// Work that times out in the express lane is requeued in the slow one as the same row with a new id. It goes
// before the other backlog there, and after work that timed out earlier. Repeated events change nothing, and its
// end in the last lane is final.
func TestTimedOutWorkMovesOn(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(3, 1)...)
	// Three visits known to be slow are claimed first.
	l.exec(`insert into scheduler_go.lane_memory select hashtextextended('load-git https://forge.example/' || n, 0), 500, 0, false, 0, now() from generate_series(0, 2) n`)
	l.claim(3)
	if diff := cmp.Diff([]int{0}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Fatalf("slow (-want +got):\n%s", diff)
	}
	l.claim(3)
	express := l.outboxOf("express:" + lanedQueue)
	if diff := cmp.Diff([]int{3, 4, 5}, numbers(express)); diff != "" {
		t.Fatalf("express (-want +got):\n%s", diff)
	}
	a, b := express[1].id, express[0].id
	l.sent()
	l.apply(l.start(a), l.start(b))
	l.exec("update scheduler_go.work set attempts = 3, last_error = 'refused', not_before = now() + interval '1 hour', below = 1 where task_id = any($1)", []uuid.UUID{a, b})
	batch := []settle.Outcome{l.start(a), l.over(a, 60*time.Second), l.start(b), l.over(b, 61*time.Second)}
	l.apply(batch...)
	if n := l.count("scheduler_go.work where timed_out = 1 and started is null and below is null and attempts = 0 and last_error is null and not_before = '-infinity'"); n != 2 {
		t.Errorf("%d messages go on without what their first try left, want 2", n)
	}
	l.apply(batch...) // again: these ids are nobody's now
	l.apply(l.over(a, 62*time.Second))
	l.keep()
	moved := l.outboxOf(lanedQueue)
	if diff := cmp.Diff([]int{4}, numbers(moved)); diff != "" {
		t.Fatalf("the slow lane has one slot, for the one that waits longest (-want +got):\n%s", diff)
	}
	if moved[0].root != a || moved[0].id == a || moved[0].soft != 900 {
		t.Errorf("moved as %+v, first sent as %s", moved[0], a)
	}
	l.sent()
	l.keep()
	if diff := cmp.Diff([]int{3}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Errorf("then the other one (-want +got):\n%s", diff)
	}
	l.sent()
	l.keep()
	if diff := cmp.Diff([]int{1}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Errorf("then first-timers (-want +got):\n%s", diff)
	}
	l.now = l.now.Add(time.Hour)
	l.apply(l.start(moved[0].id), l.over(moved[0].id, 15*time.Minute))
	if n := l.count("scheduler_go.work where task_id = $1", moved[0].id); n != 0 {
		t.Error("a time-out in the last lane is no end")
	}
	history, err := l.store.LaneHistory(t.Context(), "load-git", l.now.Add(-2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if h := history["express"]; h == nil || h.TimedOut != 2 || h.SlowSentExpress != 2 || h.Wait.Weight() != 2 {
		t.Errorf("express: %+v", h)
	}
	if h := history["slow"]; h == nil || h.TimedOut != 1 || h.SlowSentExpress != 0 || h.Wait.Weight() != 0 {
		t.Errorf("slow: %+v", h)
	}
}

// A task may catch the exception of its limit and only report a failure. By its runtime, it counts as timed out; a
// try that failed earlier counts as failed.
func TestSwallowedTimeLimits(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 1)...)
	l.claim(2)
	l.claim(1)
	pieces := slices.Concat(l.outboxOf(lanedQueue), l.outboxOf("express:"+lanedQueue))
	failed := func(id uuid.UUID, after time.Duration) settle.Outcome {
		o := l.over(id, after)
		o.End.TimedOut, o.End.Error = false, nil
		return o
	}
	l.apply(l.start(pieces[1].id), failed(pieces[1].id, time.Minute), l.start(pieces[2].id), failed(pieces[2].id, 59*time.Second))
	if n := l.count("scheduler_go.work where timed_out = 1 and state = 'backlog'"); n != 1 {
		t.Errorf("%d moved, want the one that took a minute", n)
	}
	if n := l.count("scheduler_go.work where task_id = $1", pieces[2].id); n != 0 {
		t.Error("one that failed sooner is still underway")
	}
}

// A task that caught the exception of its limit is a success for its worker. Another listener may read that event
// before the result: only the result decides whether it timed out.
func TestRuntimeBeforeTheResultOfATimeOut(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(3, 1)...)
	l.claim(3)
	for i, p := range l.outboxOf("express:" + lanedQueue) {
		l.exec("update scheduler_go.work set home = 'q', share_group = 'gitea', cost = 10 where task_id = $1", p.id)
		told := []settle.Outcome{l.done(p.id, 61*time.Second), l.start(p.id)}
		l.apply(told[:2-i/2]...) // of the last one no start is heard
		result := l.over(p.id, 61*time.Second)
		if i == 0 {
			result.End = &settle.End{Status: model.RunEventful, EventTime: result.End.EventTime}
		} else {
			result.End.TimedOut, result.End.Error = false, nil
		}
		l.apply(result)
		if n := l.count("scheduler_go.work w where w.share_group is not null and w.lane_set is not null and w.root_id = $1 and w.timed_out = 1", p.id); n != min(i, 1) {
			t.Errorf("piece %d: %d moved", i, n)
		}
	}
}

// Recorded runtimes decide the lane of an origin's next visit, and those of its lister the lane of a new origin.
func TestLanesLearn(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(10, 10)...)
	l.claim(8)
	for _, p := range l.outboxOf("express:" + lanedQueue) {
		if p.number < 4 {
			l.apply(l.start(p.id), l.done(p.id, 2*time.Second))
		} else {
			l.apply(l.start(p.id), l.over(p.id, time.Minute))
		}
	}
	l.sent()
	l.exec("delete from scheduler_go.work")
	l.next = 0
	l.claim(8)
	if diff := cmp.Diff([][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, [][]int{numbers(l.outboxOf("express:" + lanedQueue)), numbers(l.outboxOf(lanedQueue))}); diff != "" {
		t.Errorf("by their own memory (-want +got):\n%s", diff)
	}
	l.sent()
	l.exec("delete from scheduler_go.work")
	l.exec("update scheduler_go.lane_sketches set weight = 100 where bucket > 20")
	l.claim(2)
	if diff := cmp.Diff([]int{8, 9}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Errorf("by their lister's (-want +got):\n%s", diff)
	}
}

// A task's run that is requeued in another lane is the same run. It stays open, uses no retry, and records the
// lane that it left. A retry after a failure avoids the express lane. In the last lane a time-out is final, unless
// that lane retries.
func TestRunsMoveOn(t *testing.T) {
	t.Parallel()
	for _, retry := range []bool{false, true} {
		t.Run(fmt.Sprint("retry ", retry), func(t *testing.T) {
			t.Parallel()
			runsMoveOn(t, retry)
		})
	}
}

func runsMoveOn(t *testing.T, retry bool) {
	lanes := two(2, 2)
	lanes[1].Retry = retry
	l := newLaned(t, lanes...)
	l.exec(`insert into task (type, arguments, next_run, status, policy, retries_left) select 'load-git',
		jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://forge.example/' || n)),
		now() - n * interval '1 hour', 'next_run_not_scheduled', 'oneshot', 2 from generate_series(1, 2) n`)
	l.exec(`insert into task_run (task, backend_id, status, scheduled, started, ended)
		select id, gen_random_uuid(), case n when 2 then 'failed' else 'eventful' end::task_run_status, now() - n * interval '1 day', null, now()
		from task, generate_series(2, 3) n where arguments -> 'kwargs' ->> 'url' like '%/2'`)
	l.exec("update task set status = 'next_run_not_scheduled', next_run = now() - interval '1 hour', retries_left = 2")
	_, err := claimWith(t.Context(), l.slots, l.q, func(ctx context.Context, tx *db.Tx, free int) ([]ledger.Work, error) {
		_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: l.tt, Queue: l.q.Name, Groups: []ledger.TaskGroup{{Count: free}}, Tried: true, Now: time.Now()})
		return work, err
	})
	if err != nil {
		t.Fatal(err)
	}
	express, slow := l.outboxOf("express:"+lanedQueue), l.outboxOf(lanedQueue)
	if diff := cmp.Diff([][]int{{1}, {2}}, [][]int{numbers(express), numbers(slow)}); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	l.apply(l.start(express[0].id), l.over(express[0].id, time.Minute))
	var status, metadata, newID string
	var retries int
	if err := l.store.Pool().QueryRow(t.Context(), `select r.status, r.metadata::text, r.backend_id, t.retries_left
		from task_run r join task t on t.id = r.task where t.arguments -> 'kwargs' ->> 'url' like '%/1' and t.status = 'next_run_scheduled'`).
		Scan(&status, &metadata, &newID, &retries); err != nil {
		t.Fatal(err)
	}
	if status != "started" || metadata != `{"worker": null, "timed_out": ["express"]}` || newID == express[0].id.String() || retries != 2 {
		t.Errorf("run is %s, %s, %s, with %d retries left", status, metadata, newID, retries)
	}
	l.sent()
	l.keep()
	again := l.outboxOf(lanedQueue)
	if len(again) != 1 || again[0].id.String() != newID || again[0].root != express[0].id {
		t.Fatalf("sent again as %+v, the run is %s", again, newID)
	}
	l.now = l.now.Add(time.Hour)
	for _, id := range []uuid.UUID{again[0].id, slow[0].id} {
		l.apply(l.start(id), l.over(id, 16*time.Minute))
	}
	want := "status = 'disabled' and retries_left = 0"
	if retry {
		want = "status = 'next_run_not_scheduled' and retries_left = 1"
	}
	if n := l.count("task where " + want); n != 2 {
		t.Errorf("%d of 2 tasks have %s", n, want)
	}
}

// Dates that are too far apart for an interval fail no claim.
func TestLanesTakeOriginsWithFarDates(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(10, 10)...)
	lister := uuid.New()
	l.exec("insert into listers (id, name, instance_name, current_state, updated) values ($1, 'gitea', '', '{}', now())", lister)
	dates := [][2]string{{"294276-12-31Z", "4714-11-24Z BC"}, {"infinity", "2020-01-01Z"}, {"2020-01-01Z", "-infinity"}, {"infinity", "infinity"}}
	for i, d := range dates {
		url := fmt.Sprintf("https://forge.example/%d", i)
		l.exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
			values ($1, $2, 'git', '{}', true, now(), $3::text::timestamptz)`, lister, url, d[0])
		l.exec("insert into origin_visit_stats (url, visit_type, last_visit) values ($1, 'git', $2::text::timestamptz)", url, d[1])
	}
	if n := l.claim(len(dates)); n != len(dates) {
		t.Errorf("%d claimed, want %d", n, len(dates))
	}
	if n := l.count("scheduler_go.work where state = 'outgoing'"); n != len(dates) {
		t.Errorf("%d on their way, want %d", n, len(dates))
	}
}

// A share counts over all lanes: requeued work is charged to its group and stays in flight.
func TestSharesCountOverLanes(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1, 1)...)
	id := uuid.New()
	_, err := claimWith(t.Context(), l.slots, l.q, func(context.Context, *db.Tx, int) ([]ledger.Work, error) {
		return []ledger.Work{{
			TaskID: id, Home: l.q.Name, TaskName: "x", Args: json.RawMessage("[]"), Kwargs: json.RawMessage(`{"url": "u"}`), Claimed: l.now,
			Share: ledger.Share{Shared: true, Group: "gitea", Cost: 5},
		}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.apply(l.start(id), l.over(id, time.Minute))
	states, err := l.store.ShareStates(t.Context(), l.q.Name, l.now, time.Hour)
	if s := states["gitea"]; err != nil || s == nil || s.InFlight != 1 || s.Started != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if n := l.count("scheduler_go.share_charges where share_group = 'gitea' and seconds = 60"); n != 1 {
		t.Error("the try was not charged")
	}
	if n := l.count("scheduler_go.work w where w.share_group is not null and w.lane_set is not null and w.timed_out = 1 and w.root_id = $1", id); n != 1 {
		t.Error("the ledger lost it")
	}
}

// maintain runs maintenance with the given lanes, or with none configured, and sends as far as there are slots.
func (l *laned) maintain(now time.Time, queues ...dispatch.Queue) {
	l.t.Helper()
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	laned := func(context.Context) ([]dispatch.Queue, error) { return queues, nil }
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{Store: l.store, Slots: l.slots, Log: log, Reg: prometheus.NewRegistry(), Queues: laned})
	unheard := maintenance.GiveUpWork{Store: l.store, Broker: l.inspector, Log: log}
	removed := maintenance.RemovedLanes{
		Store: l.store, Slots: l.slots, Log: log,
		Home: func(context.Context, string) (dispatch.Queue, error) {
			return dispatch.Queue{Name: l.q.Name, Limit: new(int64(2))}, nil
		},
	}
	pumped := pump.RunOnce(l.t.Context(), now)
	_, giveUp := unheard.GiveUp(l.t.Context(), now)
	_, release := removed.Release(l.t.Context(), now)
	if err := errors.Join(pumped, giveUp, release); err != nil {
		l.t.Fatal(err)
	}
}

// The backlog of lanes that are removed from the configuration goes to the usual queue, as far as that has room.
func TestWorkOfRemovedLanesIsSent(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.exec(`insert into scheduler_go.lane_memory select hashtextextended('load-git https://forge.example/' || n, 0), 500, 0, false, 0, now() from generate_series(0, 9) n`)
	l.claim(4)
	l.claim(2)
	l.sent()
	l.maintain(l.now)
	if diff := cmp.Diff([]int{2, 3}, numbers(l.outboxOfAny(lanedQueue))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Fewer lanes than before: the work of the others waits in the last one.
	l.sent()
	q := l.q
	lanes := *q.Lanes
	lanes.Lanes = lanes.Lanes[:1]
	q.Lanes = &lanes
	l.maintain(l.now, q)
	if diff := cmp.Diff([]int{4, 5}, numbers(l.outboxOf("express:"+lanedQueue))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// During a change of configuration some processes lack lanes that others have. They leave these backlogs alone
// until no process has the lanes.
func TestLanesOfOtherProcessesStay(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.exec(`insert into scheduler_go.lane_memory select hashtextextended('load-git https://forge.example/' || n, 0), 500, 0, false, 0, now() from generate_series(0, 9) n`)
	for range 3 {
		l.claim(4)
	}
	waiting := func() int { return l.count("scheduler_go.work where state = 'backlog'") }
	before := waiting()
	if before == 0 {
		t.Fatal("nothing waits")
	}
	l.maintain(l.now, l.q)
	if before = waiting(); before == 0 {
		t.Fatal("nothing waits any more")
	}
	l.sent()
	for minute := range 4 {
		l.maintain(l.now.Add(time.Duration(minute) * time.Minute))
		if n := waiting(); n != before {
			t.Fatalf("%d minutes later %d of %d are left in the backlog", minute, n, before)
		}
	}
	l.maintain(l.now.Add(6 * time.Minute))
	if n := waiting(); n >= before {
		t.Errorf("%d of %d are left in the backlog of lanes that nobody has", n, before)
	}
}

// outboxOfAny returns outgoing messages with or without limits.
func (l *laned) outboxOfAny(queue string) []piece {
	l.exec("update scheduler_go.work set soft_limit = coalesce(soft_limit, 1), hard_limit = coalesce(hard_limit, 1) where state = 'outgoing'")
	return l.outboxOf(queue)
}

// Messages sent before their lanes were removed keep their outcome: after a time-out they go to the usual queue,
// and without events they are given up.
func TestWorkOfRemovedLanesEnds(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 2)...)
	l.claim(2)
	express := l.outboxOf("express:" + lanedQueue)
	l.sent()
	l.apply(l.start(express[0].id), l.over(express[0].id, time.Minute))
	l.maintain(l.now.Add(2 * time.Minute))
	if got := l.outboxOfAny(lanedQueue); len(got) != 1 || got[0].number != express[0].number || got[0].root != express[0].id {
		t.Errorf("sent %+v, want what was over: %+v", got, express[0])
	}
	l.maintain(l.now.Add(13 * time.Minute))
	if n := l.count("scheduler_go.work where lane_set is not null"); n != 0 {
		t.Errorf("%d are still underway", n)
	}
}

// A listener whose configuration has more lanes may requeue work there while a claim counts the backlogs.
func TestBacklogsBeyondTheLastLane(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 2)...)
	l.claim(2)
	l.exec("update scheduler_go.work set state = 'backlog', lane = 1, timed_out = 1")
	err := l.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		lines, err := tx.Backlogs(ctx, "load-git", 1)
		if err != nil || len(lines) != 1 || lines[0].TimedOut != 2 {
			t.Errorf("%+v, %v", lines, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A full slow lane with many slots doesn't prevent a refill of the express lane: only free slots of the express
// lane decide.
func TestLimitOfLanesIsTheFirstOnes(t *testing.T) {
	t.Parallel()
	tt := model.TaskType{Type: "load-git", BackendName: lanedQueue, MaxQueueLength: new(int64(5000))}
	lanes := two(10, 0)
	q := dispatch.Queue{Name: lanedQueue, Limit: tt.MaxQueueLength}.WithLanes("load-git", tt, map[string][]model.Lane{"load-git": lanes})
	if *q.Limit != 10 || q.Lanes.Lanes[1].Slots != 5000 {
		t.Errorf("limit %d, lanes %+v", *q.Limit, q.Lanes.Lanes)
	}
}

// The journal client, which locks visits against requeueing while it reads them, doesn't delay sending.
func TestJournalDoesNotHoldUpLanes(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 1)...)
	l.claim(5)
	express := l.outboxOf("express:" + lanedQueue)[0]
	l.sent()
	url := fmt.Sprintf("https://forge.example/%d", express.number)
	l.apply(l.start(express.id), l.over(express.id, time.Minute))
	var keys []model.OriginKey
	for n := range l.next {
		keys = append(keys, model.OriginKey{URL: fmt.Sprintf("https://forge.example/%d", n), VisitType: "git"})
	}
	err := l.store.UpdateVisitStats(t.Context(), keys, func(known ledger.KnownVisits) ledger.VisitChanges {
		l.keep()
		if len(known.Laned) != 3 || len(known.TimedOut) != 1 || !known.TimedOut[model.OriginKey{URL: url, VisitType: "git"}][0].TimedOut.Equal(l.now.Truncate(time.Second).Add(time.Minute)) {
			t.Errorf("known are %d in the express lane, and %v", len(known.Laned), known.TimedOut)
		}
		return ledger.VisitChanges{}
	})
	if err != nil {
		t.Fatal(err)
	}
	if moved := l.outboxOf(lanedQueue); len(moved) != 1 || moved[0].number != express.number {
		t.Errorf("sent %+v", moved)
	}
}

// Work whose events are lost is given up, if it can't be in its queue, or is long past its limit.
func TestLaneWorkWithoutEventsIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 2)...)
	l.claim(6)
	started := l.outboxOf("express:" + lanedQueue)[0].id
	l.apply(l.start(started))
	l.sent()
	for _, step := range []struct {
		after time.Duration
		left  map[string]int
	}{
		{70 * time.Second, map[string]int{"express": 4, "slow": 2}}, // none in the queues; one began
		{11 * time.Minute, map[string]int{"express": 4, "slow": 2}},
		{11*time.Minute + 8*time.Second, map[string]int{"express": 3, "slow": 2}},
		{12 * time.Minute, map[string]int{}},
	} {
		l.maintain(l.now.Add(step.after), l.q)
		left := map[string]int{}
		for _, lane := range []string{"express", "slow"} {
			if n := l.count("scheduler_go.work where lane_name = $1", lane); n > 0 {
				left[lane] = n
			}
		}
		if !maps.Equal(left, step.left) {
			t.Errorf("after %s %v are underway, want %v", step.after, left, step.left)
		}
	}
}

// Lanes count the broker's messages: concurrent claims never exceed their slots.
func TestLanesAreNeverOverfilled(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(20, 10)...)
	for range 5 {
		l.claim(100)
		if _, err := l.deliverer.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if express, slow := len(l.received(t, "express:"+lanedQueue)), len(l.received(t, lanedQueue)); express != 20 || slow != 10 {
		t.Errorf("%d and %d messages, want 20 and 10", express, slow)
	}
}

// A result overtakes the events of its start and its runtime. The recorded data is the same, and recorded once.
func TestLateEventsAreLearntFrom(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.claim(1)
	id := l.outboxOf("express:" + lanedQueue)[0].id
	l.exec("update scheduler_go.work set home = 'q', share_group = 'gitea', cost = 10 where task_id = $1", id)
	result := settle.Outcome{BackendID: id.String(), Received: l.now, End: &settle.End{Status: model.RunEventful, EventTime: float64(l.now.Unix())}}
	l.apply(result)
	for range 2 {
		l.apply(result, l.start(id), l.done(id, 400*time.Millisecond))
	}
	history, err := l.store.LaneHistory(t.Context(), "load-git", l.now.Add(-time.Hour))
	if h := history["express"]; err != nil || h == nil || h.Ended != 1 || h.Wait.Weight() != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	if n := l.count("scheduler_go.lane_memory where seconds between 0.39 and 0.41 and not at_least"); n != 1 {
		t.Error("the runtime is not remembered")
	}
	if n := l.count("scheduler_go.work"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	var seconds float64
	var pieces int
	if err := l.store.Pool().QueryRow(t.Context(), "select sum(seconds), sum(pieces)::int from scheduler_go.share_charges where share_group = 'gitea'").Scan(&seconds, &pieces); err != nil || seconds < 0.39 || seconds > 0.41 || pieces != 1 {
		t.Errorf("charged %g seconds for %d pieces, %v", seconds, pieces, err)
	}
}
