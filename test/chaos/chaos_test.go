// Package chaos runs the scheduler on real clusters under load while faults fall, and
// checks afterwards that nothing was lost, doubled or stuck. `make chaos` runs it.
package chaos

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

const (
	readyBound = 45 * time.Second // from the end of the fault that hit a daemon
	stallBound = 45 * time.Second // of a queue with work and room
	memoryMost = 300 << 10        // kB
	patience   = 4 * time.Minute  // until all is quiet
	// inHandAtMost is how many messages a deliverer may send again after a fault that hits
	// it, as docs/architecture.md says.
	inHandAtMost = 500
)

// For the time that CHAOS says, faults drawn from the seed fall on three RabbitMQ nodes,
// two PostgreSQL servers, three Kafka brokers, two of each daemon and two Celery workers,
// under load. Then all work was done, once but for the stated repeats, and is known to be
// done; no queue was past its limit; every daemon was ready again within its bound.
func TestChaos(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("CHAOS"))
	if err != nil {
		t.Skip("only `make chaos` runs this: it sets CHAOS to a duration")
	}
	runtime.LockOSThread() // children die with the thread that started them
	drawn, random := seed.Of(t), seed.Rand(t)
	c := newCluster(t, t.ArtifactDir())
	c.awaitReady(newWatcher(c))
	w := newWatcher(c)
	watching, stopWatching := context.WithCancel(t.Context())
	w.run(watching)
	loading, stopLoad := context.WithCancel(t.Context())
	l, loaded := &load{c: c}, make(chan struct{})
	go func() {
		defer close(loaded)
		l.run(loading)
	}()

	s := &storm{c: c, w: w, random: random, counts: map[string]int{}}
	next := time.Now().Add(10 * time.Second)
	for ticker := time.NewTicker(200 * time.Millisecond); w.age() < lasts; <-ticker.C {
		s.endThose(false)
		c.keepWorkers(s.hits)
		if len(s.now) < 2 && time.Now().After(next) {
			s.next()
			next = time.Now().Add(time.Duration(2+random.IntN(8)) * time.Second)
		}
	}
	s.endThose(true)
	lasted := time.Since(w.began)
	stopLoad()
	<-loaded
	c.awaitReady(w)
	v := c.settle(l.added, patience)
	stopWatching()
	w.wait()

	report := w.report(drawn, lasted, s.counts, v)
	t.Log("\n" + report + "\n" + w.stalls())
	if path := os.Getenv("REPORT"); path != "" {
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Error(err)
		}
	}
	w.check(v, s.counts)
}
