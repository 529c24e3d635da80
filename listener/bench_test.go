package listener

import (
	"slices"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
)

// BenchmarkListener processes a backlog of 10,000 events of 5,000 runs, ten events a message. It measures from the
// start of the process to the end of the last run. The limit is PostgreSQL's time for the least writes, 1,000 runs
// in a transaction.
func BenchmarkListener(b *testing.B) {
	n := bench.Size(5000, 200)
	world := func(dsn string) *database {
		pg := newDatabase(b, dsn)
		pg.addTasks(b, n, "run")
		pg.exec(b, "analyze")
		pg.exec(b, "checkpoint")
		return pg
	}
	last := name("run", n-1)
	var sides []bench.Side
	programs := bench.Programs(b)
	for _, program := range slices.Concat(programs, bench.ByServers(b, programs)) {
		sides = append(sides, bench.Side{Name: program.Side, Run: func() bench.Figures {
			pg, broker := world(program.Database(b)), testenv.RabbitMQ(b)
			newExchange(b, broker.URL).publish(b, streams(b, "run", n)...)
			config, stop := program.Config(b, pg.dsn, broker.URL)
			defer stop()
			cmd := program.Command(config, "start-listener")
			began := time.Now()
			defer bench.Start(b, cmd)()
			// Every 5 ms, not as testenv.Becomes looks: half a second is measured.
			for !testenv.Value[bool](b, pg.pool, "select status = 'eventful' from task_run where backend_id = $1", last) {
				if time.Since(began) > testenv.Patience {
					b.Fatal("the last run has not ended")
				}
				time.Sleep(5 * time.Millisecond)
			}
			seconds := time.Since(began).Seconds()
			if got := pg.count(b, "run", "eventful"); got != n {
				b.Errorf("%d runs ended, want %d", got, n)
			}
			_, memory := bench.Memory(b, cmd)
			return bench.Figures{"s": seconds, "events/s": float64(2*n) / seconds, "MiB": memory}
		}})
	}
	sides = append(sides, bench.Side{Name: bench.Limit("PostgreSQL"), Run: func() bench.Figures {
		pg := world(testenv.PythonDatabase(b))
		began := time.Now()
		for first := 0; first < n; first += 1000 {
			var ids []string
			for i := first; i < min(n, first+1000); i++ {
				ids = append(ids, name("run", i))
			}
			pg.exec(b, "update task_run set started = now(), ended = now(), status = 'eventful', metadata = '{}' where backend_id = any($1)", ids)
		}
		return bench.Figures{"events/s": float64(2*n) / time.Since(began).Seconds()}
	}})
	bench.Compare(b, sides...)
}
