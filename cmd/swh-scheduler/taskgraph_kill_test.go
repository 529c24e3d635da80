package main

import (
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

// Runners and listeners are killed at random instants, again and again, while a
// graph runs on real workers: no release is lost, and no task is released twice or
// too early.
func TestKilledDaemonsLoseNoRelease(t *testing.T) {
	t.Parallel()
	r := newGraphRoom(t)
	r.startWorker()
	const n, rounds = 100, 8
	var graphs []submittedGraph
	for range 3 {
		graphs = append(graphs, r.submit(wide(n)))
	}
	var daemons []*process
	restart := func() {
		for _, p := range daemons {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.done
		}
		daemons = nil
		for _, args := range [][]string{{"start-runner", "--period", "1"}, {"start-runner", "--period", "1"}, {"start-listener"}, {"start-listener"}} {
			daemons = append(daemons, start(t, append([]string{"-C", r.config}, args...)...))
		}
	}
	random := seed.Rand(t)
	for range rounds {
		restart()
		pause(time.Duration(300+random.IntN(1200)) * time.Millisecond)
	}
	restart()
	for _, g := range graphs {
		r.await(g.Graph, map[string]int{"completed": n + 2})
	}
	r.inOrder()
}
