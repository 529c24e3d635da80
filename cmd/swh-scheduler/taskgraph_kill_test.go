package main

import (
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// Runners and listeners are killed at random moments and during deliveries, while graphs run on real workers. No release
// is lost, and no task is released twice or too early. Only messages in progress at a kill are sent again.
func TestKilledDaemonsLoseNoRelease(t *testing.T) {
	t.Parallel()
	r := newGraphRoom(t)
	worker := r.startWorker()
	const n, rounds = 36, 8
	url, broker := testenv.Through(t, r.broker.URL, testenv.BrokerProxy)
	config := r.withBroker(url)
	var graphs []submittedGraph
	var daemons []*process
	again := newSentAgain(t, r.dsn)
	startAll := func() {
		daemons = nil
		for _, args := range [][]string{{"start-runner", "--period", "1"}, {"start-runner", "--period", "1"}, {"start-listener"}, {"start-listener"}} {
			daemons = append(daemons, again.start(append([]string{"-C", config}, args...)...))
		}
	}
	held, surelySentAgain := 0, 0
	random := seed.Rand(t)
	for round := range rounds {
		var reached <-chan struct{} // nil: the kill is at a random moment
		var resume func()           // resumes the worker; nil if it isn't paused
		switch round % 4 {
		case 1:
			reached = broker.Hold(testenv.Confirms, random.IntN(2))
		case 2: // A message is not sent again if its run is known before the kill.
			resume = worker.pause()
			reached = broker.Hold(testenv.Confirms, 0) // the worker must continue for a second one
			surelySentAgain++
		case 3:
			reached = broker.Hold(testenv.Publishes, random.IntN(n)) // of the first task, or of its dependents
		}
		graphs = append(graphs, r.submit(wide(n))) // so that the kill finds something to send
		startAll()
		if reached == nil {
			for _, p := range daemons {
				p.logs(t, "msg=started")
			}
			pause(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		} else {
			held++
			again.await("a message is sent", func() bool { return closed(reached) })
		}
		again.kill(daemons...)
		broker.Cut()
		broker.Restore()
		if resume != nil {
			startAll()
			again.await("what was in hand is sent again", func() bool { return again.waiting() == 0 })
			resume()
			again.kill(daemons...)
		}
	}
	startAll()
	for _, g := range graphs {
		r.await(g.Graph, map[string]int{"completed": n + 2})
	}
	for _, p := range daemons {
		p.logs(t, "msg=started") // from here on it handles signals
		p.stop(t, syscall.SIGTERM)
	}
	worker.stop()
	r.inOrder()

	sent := taskIDs(t, r.broker.URL, "swh.test.graph.Step")
	for _, note := range worker.notes() {
		sent[note.ID]++
	}
	if sentAgain := again.check(sent, held); sentAgain < surelySentAgain {
		t.Errorf("%d messages were sent again, though the broker had some at each of %d kills, and the worker had not", sentAgain, surelySentAgain)
	} else {
		t.Logf("%d kills hit %d messages in hand; %d were sent again", again.hits, len(again.rows), sentAgain)
	}
	runs := testenv.Column[string](t, r.pool, "select backend_id from task_run")
	if want := rounds * (n + 2); len(runs) != want {
		t.Errorf("%d runs, want %d", len(runs), want)
	}
	for _, id := range runs {
		if sent[id] == 0 {
			t.Errorf("run %s was never executed", id)
		}
		delete(sent, id)
	}
	for id := range sent {
		t.Errorf("message %s belongs to no run", id)
	}
}
