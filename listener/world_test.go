package listener

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// database is a scheduler database with three task types: one whose rules show
// each time they are applied, one that knows no limits, and one whose runs can't
// end well, as its backoff factor is zero and the trigger divides by it.
type database struct {
	dsn  string
	pool *pgxpool.Pool
}

func newDatabase(t testing.TB, dsn string) *database {
	t.Helper()
	pg := &database{dsn: dsn, pool: testenv.Open(t, dsn).Pool()}
	pg.exec(t, `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval,
			backoff_factor, num_retries, retry_delay)
		values ('good', '', 'swh.test.Good', '64 days', '1 hour', '64 days', 2, 3, '2 hours'),
		       ('bare', '', 'swh.test.Bare', '1 day', null, null, 1.5, null, null),
		       ('broken', '', 'swh.test.Broken', '1 day', '1 hour', '64 days', 0, 3, '2 hours')`)
	return pg
}

func (pg *database) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	testenv.Exec(t, pg.pool, query, args...)
}

// addTask makes a task with one scheduled run.
func (pg *database) addTask(t testing.TB, taskType, policy, backendID string) (id int64) {
	t.Helper()
	id = testenv.Value[int64](t, pg.pool, `
		insert into task (type, arguments, next_run, current_interval, status, retries_left, policy)
		values ($1, '{"args": [], "kwargs": {}}', now(), '64 days', 'next_run_scheduled', 1, $2) returning id`, taskType, policy)
	pg.addRun(t, id, backendID)
	return id
}

func (pg *database) addRun(t testing.TB, task int64, backendID string) {
	t.Helper()
	pg.exec(t, `insert into task_run (task, backend_id, scheduled) values ($1, $2, now())`, task, backendID)
}

// state describes all runs and their tasks, in the order in which the runs were made. Times are only as precise as
// can be compared: within the last hour or not, before or after another.
func (pg *database) state(t testing.TB, prefix string) []string {
	t.Helper()
	return testenv.Column[string](t, pg.pool, `
		select concat_ws(' ', r.backend_id, r.status, r.metadata, 'started=' || coalesce((r.started between now() - interval '1 hour' and now())::text, 'no'),
			'ended=' || coalesce((r.ended between now() - interval '1 hour' and now())::text, 'no'), 'in order=' || (r.started <= r.ended),
			t.status, t.current_interval, t.retries_left,
			'next=' || case when t.status = 'next_run_not_scheduled' then (
				select (t.next_run - max(l.ended))::text from task_run l where l.task = t.id) end)
		from task_run r join task t on t.id = r.task
		where starts_with(r.backend_id, $1)
		order by r.id`, prefix)
}

// count counts the runs with a prefix that have a status.
func (pg *database) count(t testing.TB, prefix, status string) int {
	t.Helper()
	return testenv.Value[int](t, pg.pool, `select count(*) from task_run where starts_with(backend_id, $1) and status::text = $2`, prefix, status)
}

// addTasks makes tasks with a run each, named by prefix and number from 0.
func (pg *database) addTasks(t testing.TB, n int, prefix string) {
	t.Helper()
	pg.exec(t, `
		with t as (
			insert into task (type, arguments, next_run, current_interval, status, retries_left)
			select 'good', '{}', now(), '64 days', 'next_run_scheduled', 1 from generate_series(1, $1::int) returning id)
		insert into task_run (task, backend_id, scheduled)
		select id, $2::text || '-' || (row_number() over () - 1), now() from t`, n, prefix)
}

// rows returns all columns of the runs called "run-…" and their tasks.
func (pg *database) rows(t testing.TB) []string {
	t.Helper()
	return testenv.Column[string](t, pg.pool, `
		select r::text || t::text from task_run r join task t on t.id = r.task
		where starts_with(r.backend_id, 'run-') order by r.id`)
}

// rejections returns the events that were set aside.
func (pg *database) rejections(t testing.TB) []string {
	t.Helper()
	return testenv.Column[string](t, pg.pool, `
		select concat_ws('|', backend_id, event, sqlstate, reason) from scheduler_go.rejected_events order by id`)
}

// openStore opens our store on a database.
func openStore(t testing.TB, dsn string) settle.Store {
	t.Helper()
	return settle.Store{Store: testenv.Open(t, dsn)}
}

// newTestListener returns a listener with its own metrics.
func newTestListener(t testing.TB, source Source, store Store) *Listener {
	t.Helper()
	return New(Options{
		Source: source, Store: store, Registerer: prometheus.NewRegistry(),
		Log: testLog(t),
	})
}

func testLog(t testing.TB) *slog.Logger { return textLog(t.Output()) }

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// event is the JSON of an event of a task as workers send it.
type event map[string]any

func (e event) with(key string, value any) event {
	e[key] = value
	return e
}

func taskEvent(kind, uuid string, timestamp float64) event {
	return event{
		"type": kind, "uuid": uuid, "hostname": "worker@host", "timestamp": timestamp,
		"utcoffset": 0, "pid": 7, "clock": 42, "local_received": timestamp,
	}
}

func startedEvent(uuid string) event { return taskEvent("task-started", uuid, 1700000000) }

func resultEvent(uuid string, result any) event {
	return taskEvent("task-result", uuid, 1700000001).with("result", result)
}

// message returns the body of a message: a list of events, as workers batch theirs.
func message(t testing.TB, events ...event) []byte {
	t.Helper()
	body, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// streams returns the messages about n runs, each of which starts and succeeds. A message has ten events, as busy
// workers batch them.
func streams(t testing.TB, prefix string, n int) (bodies [][]byte) {
	t.Helper()
	var events []event
	for i := range n {
		id := name(prefix, i)
		events = append(events, startedEvent(id), resultEvent(id, map[string]any{"status": "eventful"}))
	}
	for chunk := range slices.Chunk(events, 10) {
		bodies = append(bodies, message(t, chunk...))
	}
	return bodies
}

func delivery(body []byte) celery.Delivery {
	return celery.Delivery{Body: body, ContentType: "application/json"}
}

// feed applies messages as one batch, without a broker.
func feed(t testing.TB, l *Listener, bodies ...[]byte) {
	t.Helper()
	b := newBatch(firstTurn())
	for _, body := range bodies {
		l.read(b, delivery(body))
	}
	if err := l.apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }

func ownDatabase(t testing.TB) *database {
	t.Helper()
	return newDatabase(t, testenv.Database(t))
}
