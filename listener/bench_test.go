package listener

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"swh-scheduler/internal/testenv"
)

// BenchmarkListener works off a backlog of 20,000 events of 10,000 runs, a
// message of ten events after the other, from the start of the listener to the
// last run's end: ours in this process, and the peer's own command.
func BenchmarkListener(b *testing.B) {
	const n = 10_000
	for name, start := range map[string]func(b *testing.B, broker, dsn string) (stop func()){
		"ours": func(b *testing.B, broker, dsn string) func() {
			return start(b, newTestListener(b, consumer(b, broker), openStore(b, dsn)))
		},
		"peer": startPeerListener,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				db, broker := ownDatabase(b), testenv.RabbitMQ(b)
				db.addTasks(b, n, "run")
				db.exec(b, `analyze`)
				x := newExchange(b, broker.URL)
				x.publish(b, streams(b, "run", n)...)
				b.StartTimer()
				stop := start(b, broker.URL, db.dsn)
				last := fmt.Sprint("run-", n-1)
				eventually(b, "the last run has ended", func() bool { return db.count(b, last, "eventful") == 1 })
				b.StopTimer()
				stop()
				if got := db.count(b, "run", "eventful"); got != n {
					b.Errorf("%d runs ended, want %d", got, n)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(2*n*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func startPeerListener(b *testing.B, broker, dsn string) (stop func()) {
	b.Helper()
	config := filepath.Join(b.TempDir(), "config.yml")
	text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, broker)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(testenv.Python(b)), "swh"), "--config-file", config, "scheduler", "start-listener")
	cmd.Stderr = b.Output()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
