package runner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
)

// loadGit is a task type without a limit.
const loadGit = "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)"

// BenchmarkRunner sends 50,000 ready tasks of a type without a limit. It measures from the start of the process to
// its end; ours ends after the broker's confirmations. The limits are a bare loop that publishes one such message
// as often, and PostgreSQL's time for the least writes.
func BenchmarkRunner(b *testing.B) {
	n := bench.Size(50_000, 1000)
	tasks := []string{
		loadGit,
		fmt.Sprintf(`insert into task (type, arguments, next_run, current_interval, status)
			select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/some/repository/' || n)),
			       now() - n * interval '1 s', '1 day', 'next_run_not_scheduled' from generate_series(1, %d) n`, n),
		"vacuum analyze task", "checkpoint",
	}
	var sides []bench.Side
	programs := bench.Programs(b)
	for _, program := range slices.Concat(programs, bench.ByServers(b, programs)) {
		sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
			dsn, mq := program.Database(b), testenv.RabbitMQ(b)
			bench.Exec(b, dsn, tasks...)
			config, stop := program.Config(b, dsn, mq.URL)
			defer stop()
			seconds, processor, memory := bench.Run(b, program.Command(config, "start-runner"))
			if got := bench.Empty(b, mq.URL, "swh.load"); got != n {
				b.Errorf("%d messages in the queue, want %d", got, n)
			}
			return bench.Figures{"s": seconds, "MiB": memory, "cpu-µs/task": 1e6 * processor / float64(n), "tasks/s": float64(n) / seconds}
		}})
	}
	mq := testenv.RabbitMQ(b)
	message, publish := oneMessage(b, programs[0], mq), bench.BarePublisher(b, mq.URL)
	sides = append(sides,
		bench.Side{Name: bench.Limit("broker"), Run: func() bench.Figures {
			seconds := publish("swh.load", n, message)
			bench.Empty(b, mq.URL, "swh.load")
			return bench.Figures{"tasks/s": float64(n) / seconds}
		}},
		bench.Side{Name: bench.Limit("PostgreSQL"), Run: func() bench.Figures {
			dsn := testenv.PythonDatabase(b)
			bench.Exec(b, dsn, tasks...)
			return bench.Figures{"tasks/s": float64(n) / bareClaims(b, dsn, n)}
		}},
	)
	bench.Compare(b, sides...)
}

// oneMessage makes an empty queue swh.load and returns a message as a program sends it there.
func oneMessage(b *testing.B, program bench.Program, mq testenv.Broker) amqp.Publishing {
	b.Helper()
	dsn := program.Database(b)
	bench.Exec(b, dsn, loadGit,
		`insert into task (type, arguments, next_run, current_interval, status)
			values ('load-git', '{"args": [], "kwargs": {"url": "https://example.org/some/repository/12345"}}', now(), '1 day', 'next_run_not_scheduled')`)
	bench.Run(b, program.Command(bench.ConfigFile(b, dsn, mq.URL), "start-runner"))
	return bench.Take(b, mq.URL, "swh.load")
}

// bareClaims marks n ready tasks, 1,000 in a transaction, inserts their runs, and returns the seconds that it
// took.
func bareClaims(b *testing.B, dsn string, n int) float64 {
	b.Helper()
	conn := testenv.Connect(b, dsn)
	began := time.Now()
	for done := 0; done < n; done += 1000 {
		testenv.Exec(b, conn, `with ready as (
				select id from task where type = 'load-git' and status = 'next_run_not_scheduled' and next_run <= now()
				order by next_run limit 1000 for no key update skip locked),
			claimed as (update task set status = 'next_run_scheduled' from ready where task.id = ready.id returning task.id)
			insert into task_run (task, backend_id, scheduled, status) select id, gen_random_uuid(), now(), 'scheduled' from claimed`)
	}
	return time.Since(began).Seconds()
}

// BenchmarkIdlePass measures a pass over 300 task types with nothing to do.
func BenchmarkIdlePass(b *testing.B) {
	var sides []bench.Side
	for _, program := range bench.Programs(b)[:2] {
		dsn, mq := program.Database(b), testenv.RabbitMQ(b)
		bench.Exec(b, dsn,
			"insert into task_type (type, description, backend_name) select 'load-' || n, '', 'swh.load.' || n from generate_series(1, 300) n",
			`insert into task (type, arguments, next_run, current_interval, status)
				select 'load-' || 1 + n % 300, '{}', now() + interval '1 day', '1 day', 'next_run_not_scheduled' from generate_series(1, 100000) n`,
			"vacuum analyze task")
		config := bench.ConfigFile(b, dsn, mq.URL)
		sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
			seconds, _, _ := bench.Run(b, program.Command(config, "start-runner"))
			return bench.Figures{"s": seconds}
		}})
	}
	bench.Compare(b, sides...)
}

// BenchmarkSaveCodeNow measures the time of a task with priority from its row to its queue, while a second runner
// sends 100,000 tasks without priority. Both have a period of one second. The limit is the time without a runner:
// the writer of the row sends the message.
func BenchmarkSaveCodeNow(b *testing.B) {
	waiting, urgent := bench.Size(100_000, 5000), bench.Size(200, 20)
	latencies := func(all []float64) bench.Figures {
		slices.Sort(all)
		return bench.Figures{"p50-ms": all[len(all)/2], "p99-ms": all[len(all)*99/100]}
	}
	const queue = "save_code_now:swh.load"
	var sides []bench.Side
	programs := bench.Programs(b)
	for _, program := range slices.Concat(programs[:2], bench.ByServers(b, programs)) {
		sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
			dsn, mq := program.Database(b), testenv.RabbitMQ(b)
			bench.Exec(b, dsn, loadGit, fmt.Sprintf(`insert into task (type, arguments, next_run, current_interval, status)
					select 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled' from generate_series(1, %d)`, waiting),
				"vacuum analyze task", "checkpoint")
			arrivals := consume(b, mq.URL, queue)
			config, stop := program.Config(b, dsn, mq.URL)
			defer stop()
			for _, option := range []string{"--without-priority", "--with-priority"} {
				defer bench.Start(b, program.Command(config, "start-runner", "--period", "1", option))()
			}
			return latencies(request(b, dsn, urgent, arrivals, func(int) {}))
		}})
	}
	sides = append(sides, bench.Side{Name: bench.Limit("nothing_beside"), Run: func() bench.Figures {
		dsn, mq := testenv.PythonDatabase(b), testenv.RabbitMQ(b)
		bench.Exec(b, dsn, loadGit)
		arrivals, publish := consume(b, mq.URL, queue), bench.BarePublisher(b, mq.URL)
		return latencies(request(b, dsn, urgent, arrivals, func(i int) {
			publish(queue, 1, amqp.Publishing{Body: fmt.Appendf(nil, "[[%d]]", i)})
		}))
	}})
	bench.Compare(b, sides...)
}

// request adds n tasks with priority, one every 30 ms after the first has arrived. It calls added with the number
// of each, and returns the milliseconds until each arrived.
func request(b *testing.B, dsn string, n int, arrivals <-chan int, added func(int)) []float64 {
	b.Helper()
	conn := testenv.Connect(b, dsn)
	written := make([]time.Time, n)
	add := func(i int) {
		testenv.Exec(b, conn, `insert into task (type, arguments, next_run, status, policy, priority)
			values ('load-git', jsonb_build_object('args', jsonb_build_array($1::int), 'kwargs', '{}'::jsonb), now(), 'next_run_not_scheduled', 'oneshot', 'high')`, i)
		written[i] = time.Now()
		added(i)
	}
	var latencies []float64
	arrived := func(i int) { latencies = append(latencies, float64(time.Since(written[i]).Microseconds())/1e3) }
	add(0)
	<-arrivals // the runners are up
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for next := 1; len(latencies) < n-1; {
		if next == n {
			arrived(<-arrivals)
			continue
		}
		select {
		case i := <-arrivals:
			arrived(i)
		case <-tick.C:
			add(next)
			next++
		}
	}
	return latencies
}

// consume returns a channel of the first argument, a number, of each message of a queue.
func consume(b *testing.B, broker, queue string) <-chan int {
	b.Helper()
	ch := testenv.Channel(b, broker)
	testenv.Declare(b, ch, queue, nil)
	deliveries, err := ch.ConsumeWithContext(b.Context(), queue, "", true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	arrivals := make(chan int, 1000)
	go func() {
		for d := range deliveries {
			if n, ok := firstArgument(d.Body); ok {
				arrivals <- n
			}
		}
	}()
	return arrivals
}

// firstArgument returns the first argument of a message, if that is a number.
func firstArgument(message []byte) (n int, ok bool) {
	var body []json.RawMessage
	var args []int
	if json.Unmarshal(message, &body) != nil || json.Unmarshal(body[0], &args) != nil {
		return 0, false
	}
	return args[0], true
}
