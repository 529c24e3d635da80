package runner_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// BenchmarkRunner sends 50,000 ready tasks of a type without a limit, with our
// command and with the peer's: from the start of the process to its end. CPU
// time and memory are the process's own. Ours has confirms and the outbox.
func BenchmarkRunner(b *testing.B) {
	const n = 50_000
	for _, side := range commands(b) {
		b.Run("side="+side.name, func(b *testing.B) {
			var cpu, memory float64
			for b.Loop() {
				b.StopTimer()
				dsn, mq := testenv.Database(b), testenv.RabbitMQ(b)
				execAll(b, dsn,
					"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)",
					fmt.Sprintf(`insert into task (type, arguments, next_run, current_interval, status)
						select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/some/repository/' || n)),
						       now() - n * interval '1 s', '1 day', 'next_run_not_scheduled' from generate_series(1, %d) n`, n),
					"vacuum analyze task")
				cmd := side.command(configFile(b, dsn, mq.URL), "start-runner")
				b.StartTimer()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				b.StopTimer()
				cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
				memory = max(memory, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
				if got := depth(b, mq.URL, "swh.load"); got != n {
					b.Errorf("%d messages in the queue, want %d", got, n)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(1e6*cpu/float64(n*b.N), "cpu-µs/task")
			b.ReportMetric(memory, "MiB")
		})
	}
}

// BenchmarkIdlePass is a pass over 300 task types with nothing to do.
func BenchmarkIdlePass(b *testing.B) {
	for _, side := range commands(b) {
		b.Run("side="+side.name, func(b *testing.B) {
			dsn, mq := testenv.Database(b), testenv.RabbitMQ(b)
			execAll(b, dsn,
				"insert into task_type (type, description, backend_name) select 'load-' || n, '', 'swh.load.' || n from generate_series(1, 300) n",
				`insert into task (type, arguments, next_run, current_interval, status)
					select 'load-' || 1 + n % 300, '{}', now() + interval '1 day', '1 day', 'next_run_not_scheduled' from generate_series(1, 100000) n`,
				"vacuum analyze task")
			path := configFile(b, dsn, mq.URL)
			for b.Loop() {
				if out, err := side.command(path, "start-runner").CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
		})
	}
}

// side is our command or the peer's.
type side struct {
	name    string
	command func(config string, args ...string) *exec.Cmd
}

func commands(b *testing.B) []side {
	b.Helper()
	ours := filepath.Join(b.TempDir(), "swh-scheduler")
	if err := testenv.BuildProgram(ours); err != nil {
		b.Fatal(err)
	}
	peer := filepath.Join(filepath.Dir(testenv.Python(b)), "swh")
	with := func(config, program string, args []string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "SWH_CONFIG_FILENAME="+config)
		return cmd
	}
	return []side{
		{"ours", func(config string, args ...string) *exec.Cmd { return with(config, ours, args) }},
		{"peer", func(config string, args ...string) *exec.Cmd {
			return with(config, peer, append([]string{"scheduler"}, args...))
		}},
	}
}

func configFile(b *testing.B, dsn, broker string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "scheduler.yml")
	text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, broker)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func execAll(b *testing.B, dsn string, statements ...string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for _, statement := range statements {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
}

// depth is how many messages a queue holds.
func depth(b *testing.B, broker, queue string) int {
	b.Helper()
	conn, err := amqp.Dial(broker)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	return q.Messages
}

// BenchmarkSaveCodeNow measures how long a task with priority takes from its row
// to its queue while a second runner sends 100,000 tasks without: both with a
// period of one second.
func BenchmarkSaveCodeNow(b *testing.B) {
	const waiting, urgent = 100_000, 300
	for _, side := range commands(b) {
		b.Run("side="+side.name, func(b *testing.B) {
			var latencies []float64 // ms
			for b.Loop() {
				dsn, mq := testenv.Database(b), testenv.RabbitMQ(b)
				execAll(b, dsn,
					"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)",
					fmt.Sprintf(`insert into task (type, arguments, next_run, current_interval, status)
						select 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled' from generate_series(1, %d)`, waiting),
					"vacuum analyze task")
				arrivals := consume(b, mq.URL, "save_code_now:swh.load")
				path := configFile(b, dsn, mq.URL)
				for _, option := range []string{"--without-priority", "--with-priority"} {
					cmd := side.command(path, "start-runner", "--period", "1", option)
					if err := cmd.Start(); err != nil {
						b.Fatal(err)
					}
					defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
				}
				latencies = append(latencies, request(b, dsn, urgent, arrivals)...)
			}
			slices.Sort(latencies)
			b.ReportMetric(latencies[len(latencies)/2], "p50-ms")
			b.ReportMetric(latencies[len(latencies)*99/100], "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// request adds n tasks with priority, one every 30 ms after the first has gone
// through, and returns how many milliseconds each took to arrive.
func request(b *testing.B, dsn string, n int, arrivals <-chan int) []float64 {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	written := make([]time.Time, n)
	add := func(i int) {
		if _, err := conn.Exec(b.Context(), `insert into task (type, arguments, next_run, status, policy, priority)
			values ('load-git', jsonb_build_object('args', jsonb_build_array($1::int), 'kwargs', '{}'::jsonb), now(), 'next_run_not_scheduled', 'oneshot', 'high')`, i); err != nil {
			b.Fatal(err)
		}
		written[i] = time.Now()
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

// consume tells the number, their first argument, of the messages of a queue.
func consume(b *testing.B, broker, queue string) <-chan int {
	b.Helper()
	conn, err := amqp.Dial(broker)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	deliveries, err := ch.ConsumeWithContext(b.Context(), queue, "", true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	arrivals := make(chan int, 1000)
	go func() {
		for d := range deliveries {
			var body []json.RawMessage
			var args []int
			if json.Unmarshal(d.Body, &body) == nil && json.Unmarshal(body[0], &args) == nil {
				arrivals <- args[0]
			}
		}
	}()
	return arrivals
}
