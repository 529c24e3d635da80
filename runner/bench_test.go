package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

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
		b.Run(side.name, func(b *testing.B) {
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
				cmd := side.command(config(b, dsn, mq.URL), "start-runner")
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
		b.Run(side.name, func(b *testing.B) {
			dsn, mq := testenv.Database(b), testenv.RabbitMQ(b)
			execAll(b, dsn,
				"insert into task_type (type, description, backend_name) select 'load-' || n, '', 'swh.load.' || n from generate_series(1, 300) n",
				`insert into task (type, arguments, next_run, current_interval, status)
					select 'load-' || 1 + n % 300, '{}', now() + interval '1 day', '1 day', 'next_run_not_scheduled' from generate_series(1, 100000) n`,
				"vacuum analyze task")
			path := config(b, dsn, mq.URL)
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
	if out, err := exec.Command("go", "build", "-o", ours, "swh-scheduler/cmd/swh-scheduler").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
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

func config(b *testing.B, dsn, broker string) string {
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
