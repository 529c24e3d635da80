package main

import (
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
)

// BenchmarkStart is the start of the program, up to its help: scripts call it in loops.
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

// BenchmarkIdle is the memory of daemons that have nothing to do, three seconds after their
// start.
func BenchmarkIdle(b *testing.B) {
	programs := bench.Programs(b)[:2]
	for _, daemon := range [][]string{{"start-runner", "--period", "1"}, {"start-listener"}, {"schedule-recurrent"}} {
		b.Run(daemon[0], func(b *testing.B) {
			var sides []bench.Side
			for _, program := range programs {
				dsn, mq := program.Database(b), testenv.RabbitMQ(b)
				bench.Exec(b, dsn, "insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load')")
				config := bench.ConfigFile(b, dsn, mq.URL)
				sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
					cmd := program.Command(config, daemon...)
					defer bench.Start(b, cmd)()
					time.Sleep(3 * time.Second)
					now, _ := bench.Memory(b, cmd)
					return bench.Figures{"MiB": now}
				}})
			}
			bench.Compare(b, sides...)
		})
	}
}
