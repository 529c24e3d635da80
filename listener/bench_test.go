package listener

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// BenchmarkListener works off a backlog of 20,000 events of 10,000 runs, in
// messages of ten, with our command and with the peer's: from the start of the
// process to the end of the last run.
func BenchmarkListener(b *testing.B) {
	const n = 10_000
	ours := filepath.Join(b.TempDir(), "swh-scheduler")
	if err := testenv.BuildProgram(ours); err != nil {
		b.Fatal(err)
	}
	peer := filepath.Join(filepath.Dir(testenv.Python(b)), "swh")
	for _, side := range []struct {
		name    string
		command func(config string) *exec.Cmd
	}{
		{"ours", func(config string) *exec.Cmd { return exec.Command(ours, "--config-file", config, "start-listener") }},
		{"peer", func(config string) *exec.Cmd {
			return exec.Command(peer, "--config-file", config, "scheduler", "start-listener")
		}},
	} {
		b.Run("side="+side.name, func(b *testing.B) {
			var memory float64
			for b.Loop() {
				b.StopTimer()
				pg, broker := ownDatabase(b), testenv.RabbitMQ(b)
				pg.addTasks(b, n, "run")
				pg.exec(b, `analyze`)
				newExchange(b, broker.URL).publish(b, streams(b, "run", n)...)
				cmd := side.command(configFile(b, pg.dsn, broker.URL))
				b.StartTimer()

				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				last := fmt.Sprint("run-", n-1)
				eventually(b, "the last run has ended", func() bool { return pg.count(b, last, "eventful") == 1 })

				b.StopTimer()
				memory = max(memory, peakMemory(b, cmd.Process.Pid))
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if got := pg.count(b, "run", "eventful"); got != n {
					b.Errorf("%d runs ended, want %d", got, n)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(2*n*b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(memory, "MiB")
		})
	}
}

// peakMemory is the most memory that a process has had resident, in MiB.
// (getrusage would count what this process had when it forked.)
func peakMemory(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(line, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// configFile is a configuration that both sides read.
func configFile(b *testing.B, dsn, broker string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "config.yml")
	text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, broker)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}
