package main

import (
	"math"
	"os/exec"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
)

// BenchmarkStart measures the program's start and its help: scripts run it in loops.
func BenchmarkStart(b *testing.B) {
	config := bench.ConfigFile(b, "", "")
	var sides []bench.Side
	for _, program := range bench.Programs(b)[:2] {
		sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
			const times = 3
			var seconds, processor float64
			for range times {
				s, cpu, _ := bench.Run(b, program.Command(config, "--help"))
				seconds, processor = seconds+s, processor+cpu
			}
			return bench.Figures{"ms": 1000 * seconds / times, "cpu-ms": 1000 * processor / times}
		}})
	}
	bench.Compare(b, sides...)
}

// BenchmarkIdle measures the memory of idle daemons.
func BenchmarkIdle(b *testing.B) {
	programs := bench.Programs(b)[:2]
	for _, daemon := range [][]string{{"start-runner", "--period", "1"}, {"schedule-recurrent"}} {
		b.Run(daemon[0], func(b *testing.B) {
			var sides []bench.Side
			for _, program := range programs {
				dsn, mq := program.Database(b), testenv.RabbitMQ(b)
				bench.Exec(b, dsn, "insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load')")
				config := bench.ConfigFile(b, dsn, mq.URL)
				sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
					cmd := program.Command(config, daemon...)
					defer bench.Start(b, cmd)()
					return bench.Figures{"MiB": settledMemory(b, cmd)}
				}})
			}
			bench.Compare(b, sides...)
		})
	}
}

// settledMemory returns the resident memory of a process, in MiB, once it has been stable for two seconds.
func settledMemory(b *testing.B, cmd *exec.Cmd) (now float64) {
	b.Helper()
	const tolerance = 0.25 // MiB
	time.Sleep(time.Second)
	for since := time.Now(); time.Since(since) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
		if next, _ := bench.Memory(b, cmd); math.Abs(next-now) > tolerance {
			now, since = next, time.Now()
		}
	}
	return now
}
