// Package chaos runs the scheduler on real clusters under load with faults, and checks afterwards that nothing was
// lost, doubled or stuck. `make chaos` runs it.
package chaos

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

const (
	readyBound = 45 * time.Second // from the end of the fault that hit a daemon
	stallBound = 45 * time.Second // of a queue with work and room
	memoryMost = 300 << 10        // kB
	patience   = 6 * time.Minute  // until all work is done
	// inHandAtMost is the number of messages that a deliverer may send again after a fault that hits it
	// (docs/explanation/guarantees.md).
	inHandAtMost = 500
)

// For the time in CHAOS, faults drawn from the seed hit three RabbitMQ nodes, two PostgreSQL servers, three Kafka
// brokers, two of each daemon and two Celery workers, under load. Then all work was done, once but for the stated
// repeats, and is recorded as done. No queue exceeded its limit; every daemon was ready again within its bound. SEEDS
// is a number of seeds that follow one another on the same clusters. After each the test checks all work until then:
// the repeats that faults may cause add up.
func TestChaos(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("CHAOS"))
	if err != nil {
		t.Skip("only `make chaos` runs this: it sets CHAOS to a duration")
	}
	seeds := 1
	if text := os.Getenv("SEEDS"); text != "" {
		if seeds, err = strconv.Atoi(text); err != nil || seeds < 1 {
			t.Fatalf("SEEDS=%s: want a number of seeds, 1 at least", text)
		}
	}
	runtime.LockOSThread() // children die with the thread that started them
	drawn := seed.Of(t)
	c := newCluster(t, t.ArtifactDir(), buildProgram(t, t.ArtifactDir()), access{})
	c.awaitReady(newWatcher(c))
	w, l := newWatcher(c), &load{c: c}
	watching, stopWatching := context.WithCancel(t.Context())
	w.run(watching)

	s := &storm{c: c, w: w, counts: map[string]int{}}
	var all []seedRun
	var v verdict
	var report string
	for n := range seeds {
		run := seedRun{seed: drawn + uint64(n)}
		t.Logf("%s seed %d", w.age(), run.seed)
		s.random, s.bag, s.drawn = seed.From(t, run.seed), nil, nil
		began := time.Now()
		s.blow(t.Context(), l, lasts)
		run.lasted, run.faults = time.Since(began), s.drawn
		c.awaitReady(w)
		v = c.settle(w, l.added, patience)
		w.check(v, s.counts)
		run.work, run.failed = v.work, t.Failed()
		all = append(all, run)
		report = w.report(all, s.counts, v) // after each, as this may end before the last
		if path := os.Getenv("REPORT"); path != "" {
			if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			break
		}
	}
	stopWatching()
	w.wait()
	t.Log("\n" + report + "\n" + w.stalls())
}

// blow makes faults under load for the time lasts, and ends them.
func (s *storm) blow(ctx context.Context, l *load, lasts time.Duration) {
	loading, stopLoad := context.WithCancel(ctx)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		l.run(loading)
	}()
	began := time.Now()
	next := began.Add(min(10*time.Second, lasts/4))
	for ticker := time.NewTicker(200 * time.Millisecond); time.Since(began) < lasts; <-ticker.C {
		s.endThose(false)
		s.c.keepWorkers()
		if len(s.now) < 2 && time.Now().After(next) {
			s.next()
			next = time.Now().Add(time.Duration(2+s.random.IntN(8)) * time.Second)
		}
	}
	s.endThose(true)
	stopLoad()
	<-loaded
}
