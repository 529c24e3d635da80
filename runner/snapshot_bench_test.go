package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

const (
	snapshotParts = 6
	snapshotRate  = 200 // tasks a second
	snapshotStep  = 50 * time.Millisecond
)

// BenchmarkUnderASnapshot runs tasks of 1,000 queues, 200 a second, in six parts of SWH_BENCH_SOAK (5m) each: a
// runner sends them, and a listener applies the events of their workers. A snapshot is held from the second part to
// the last but one, so that no dead row can be removed. After each part it prints the times from a task's row to its
// worker, dead rows, and PostgreSQL's work. It reports the times of the last part.
func BenchmarkUnderASnapshot(b *testing.B) {
	part, queues := bench.Part(b), bench.Size(1000, 20)
	dsn, mq := testenv.Database(b), testenv.RabbitMQ(b)
	bench.Exec(b, dsn, fmt.Sprintf(`insert into task_type (type, description, backend_name, max_queue_length)
		select 'load-' || n, '', 'swh.load.' || n, 1000 from generate_series(0, %d) n`, queues-1))
	program, config := bench.Programs(b)[0], bench.ConfigFile(b, dsn, mq.URL)
	w := newInstantWorkers(b, mq.URL, queues)
	for _, daemon := range [][]string{{"start-runner", "--period", "1"}, {"start-listener"}} {
		bench.Start(b, program.Command(config, daemon...))
	}
	conn, reader := testenv.Connect(b, dsn), testenv.Connect(b, dsn)
	for n := 1; n <= snapshotParts; n++ {
		switch n {
		case 2:
			testenv.Exec(b, reader, "begin isolation level repeatable read; select from task limit 1")
		case snapshotParts:
			testenv.Exec(b, reader, "commit")
		}
		active := statementTime(b, conn)
		w.request(b, conn, queues, part)
		times := w.waitForAll(b)
		slices.Sort(times)
		p50, p99 := times[len(times)/2], times[len(times)*99/100]
		fmt.Fprintf(os.Stderr, "part %d: %d tasks; from row to worker %.0f ms (median), %.0f (99 %%), %.0f at most; each second %.0f ms of statements; dead rows:",
			n, len(times), p50, p99, times[len(times)-1], (statementTime(b, conn)-active)/part.Seconds())
		for _, t := range testenv.Rows[struct {
			Name string
			Dead int64
		}](b, conn, "select relname, n_dead_tup from pg_stat_user_tables where n_dead_tup > 1000 order by 2 desc") {
			fmt.Fprintf(os.Stderr, " %s %d", t.Name, t.Dead)
		}
		fmt.Fprintln(os.Stderr)
		b.ReportMetric(p50, "p50-ms")
		b.ReportMetric(p99, "p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// statementTime returns the milliseconds of all statements of the database.
func statementTime(b *testing.B, conn *pgx.Conn) float64 {
	b.Helper()
	return testenv.Value[float64](b, conn, "select active_time from pg_stat_database where datname = current_database()")
}

// instantWorkers take each message at once, and report the start and the end of its task.
type instantWorkers struct {
	mu      sync.Mutex
	written map[int]time.Time // by number of a task that has not arrived
	times   []float64         // milliseconds
	next    int
	random  *rand.Rand
}

func newInstantWorkers(b *testing.B, broker string, queues int) *instantWorkers {
	b.Helper()
	events, ch := testenv.ListenerQueue(b, broker), testenv.Channel(b, broker)
	deliveries := make(chan amqp.Delivery, 1000)
	for i := range queues {
		queue := fmt.Sprint("swh.load.", i)
		testenv.Declare(b, ch, queue, nil)
		of, err := ch.ConsumeWithContext(b.Context(), queue, "", true, false, false, false, nil)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for d := range of {
				deliveries <- d
			}
		}()
	}
	w := &instantWorkers{written: map[int]time.Time{}, random: seed.Rand(b)}
	go w.work(b.Context(), deliveries, events)
	return w
}

// work reports the tasks of a step in one message, as busy workers batch theirs.
func (w *instantWorkers) work(ctx context.Context, deliveries <-chan amqp.Delivery, events *amqp.Channel) {
	var report []map[string]any
	tick := time.NewTicker(snapshotStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-deliveries:
			w.arrived(d)
			seconds := float64(time.Now().UnixMicro()) / 1e6
			for _, kind := range []string{"task-started", "task-result"} {
				report = append(report, map[string]any{
					"type": kind, "uuid": d.Headers["id"], "hostname": "worker@host", "timestamp": seconds, "utcoffset": 0, "pid": 7, "clock": 42,
					"result": map[string]any{"status": "eventful"},
				})
			}
		case <-tick.C:
			if len(report) == 0 {
				continue
			}
			body, _ := json.Marshal(report)
			_ = events.PublishWithContext(ctx, "celeryev", "task.multi", false, false, amqp.Publishing{ContentType: "application/json", ContentEncoding: "utf-8", Body: body})
			report = nil
		}
	}
}

func (w *instantWorkers) arrived(d amqp.Delivery) {
	n, ok := firstArgument(d.Body)
	if !ok {
		return // its task never arrives
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.written[n]; ok {
		w.times = append(w.times, float64(time.Since(at).Microseconds())/1e3)
		delete(w.written, n)
	}
}

// request adds tasks of random queues for a time.
func (w *instantWorkers) request(b *testing.B, conn *pgx.Conn, queues int, lasting time.Duration) {
	b.Helper()
	tick := time.NewTicker(snapshotStep)
	defer tick.Stop()
	for end := time.Now().Add(lasting); time.Now().Before(end); <-tick.C {
		var types []string
		var numbers []int
		for range int(snapshotRate * snapshotStep.Seconds()) {
			types, numbers = append(types, fmt.Sprint("load-", w.random.IntN(queues))), append(numbers, w.next)
			w.next++
		}
		w.mu.Lock() // a message may arrive before the answer to the commit
		for _, i := range numbers {
			w.written[i] = time.Now()
		}
		w.mu.Unlock()
		testenv.Exec(b, conn, `insert into task (type, arguments, next_run, status, policy)
			select t, jsonb_build_object('args', jsonb_build_array(i), 'kwargs', '{}'::jsonb), now(), 'next_run_not_scheduled', 'oneshot'
			from unnest($1::text[], $2::int[]) as new (t, i)`, types, numbers)
	}
}

// waitForAll returns the milliseconds of the tasks of a part, after the last one has arrived.
func (w *instantWorkers) waitForAll(b *testing.B) (times []float64) {
	b.Helper()
	testenv.Becomes(b, "tasks that have not arrived", 0, func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.written)
	})
	times, w.times = w.times, nil
	return times
}
