package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// exampleTimes returns the minute of the lanes' example and the time of its slow jobs. SWH_TEST_LANES_MINUTE=1m sets the
// design's times. A shorter minute is at least 20 s, as a free slot is observed some seconds late. By default, slow jobs
// take two minutes instead of ten.
func exampleTimes(t *testing.T) (minute, slow time.Duration) {
	t.Helper()
	text := os.Getenv("SWH_TEST_LANES_MINUTE")
	if text == "" {
		return 20 * time.Second, 40 * time.Second
	}
	minute, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SWH_TEST_LANES_MINUTE: %v", err)
	}
	return minute, 10 * minute
}

// Two real workers run the design's example: an express lane of one minute, a slow lane of 15, and four jobs without
// features. The quick jobs end first, though one was added last. The slow job that times out in the express lane runs
// again in the slow lane.
func TestLanesExample(t *testing.T) {
	t.Parallel()
	minute, slow := exampleTimes(t)
	r := newLoaderRoom(t, fmt.Sprintf(`lanes:
  load-hg:
  - {name: express, queue: "express:{backend_name}", time_limit: %g s, slots: 1}
  - {name: slow, time_limit: %g s, slots: 1}
`, minute.Seconds(), 15*minute.Seconds()))
	for _, job := range []struct {
		name  string
		takes time.Duration
	}{{"fast1", minute / 6}, {"slow1", slow}, {"slow2", slow}, {"fast2", minute / 6}} {
		r.addTasks("load-hg", job.name, 1, fmt.Sprintf(`{"seconds": %g}`, job.takes.Seconds()))
	}
	r.startWorker("express@example", 1, "express:"+laneHg)
	r.startWorker("slow@example", 1, laneHg)
	awaitWorkers(t, r.broker.URL, "express@example", "slow@example")
	for _, args := range [][]string{{"start-listener"}, {"start-runner", "--period", "1"}} {
		start(t, append([]string{"-C", r.config}, args...)...).logs(t, "started")
	}
	for began := time.Now(); r.count("task where status = 'completed'") < 4; pause(100 * time.Millisecond) {
		if time.Since(began) > minute+2*slow+patience {
			t.Fatalf("%d of 4 jobs are completed", r.count("task where status = 'completed'"))
		}
	}

	ends := testenv.Column[string](t, r.pool, `select split_part(t.arguments -> 'kwargs' ->> 'url', '/', 4) || ' '
			|| extract(epoch from r.ended - (select min(started) from task_run))::numeric(9, 1)
		from task t join task_run r on r.task = t.id order by r.ended`)
	t.Logf("with a minute of %s, ends in seconds: %s", minute, strings.Join(ends, ", "))
	var order []string
	for _, end := range ends {
		name, _, _ := strings.Cut(end, " ")
		order = append(order, name)
	}
	if want := []string{"fast1", "fast2", "slow2", "slow1"}; !slices.Equal(order, want) {
		t.Errorf("the jobs ended as %v, want %v", order, want)
	}
	const express, last = "express:" + laneHg, laneHg
	want := map[string][]string{"fast1": {last}, "slow1": {express, last}, "slow2": {last}, "fast2": {express}}
	for url, tries := range r.triesOf() {
		var queues []string
		for _, try := range tries {
			queues = append(queues, try.Queue)
		}
		if name := strings.Split(url, "/")[3]; !slices.Equal(queues, want[name]) {
			t.Errorf("%s ran in %v, want %v", name, queues, want[name])
		}
	}
}
