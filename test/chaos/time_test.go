package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A run of minutes simulates long times: one transaction sets all dates in the database back. Daemons have moments in
// memory, so they are killed before and started afterwards, as if their hosts were off meanwhile; journal clients are
// stopped. Before, workers end their tasks, and take those waiting in their queues, as these would have ended in that
// time. Deliveries keep their dates, so that counts of held slots are only too high.

// setBack is the SQL that sets dates back, by an interval.
const setBack = `
update scheduler_go.work set claimed = claimed - %[1]s, since = since - %[1]s, settled = settled - %[1]s, not_before = not_before - %[1]s,
	started = started - extract(epoch from %[1]s);
update scheduler_go.event_queues set complete = complete - %[1]s;
update scheduler_go.event_readers set complete = complete - %[1]s, since = since - %[1]s;
update scheduler_go.queue_looks set looked = looked - %[1]s, sent_before = sent_before - %[1]s;
update scheduler_go.keeper set began = began - %[1]s, until = until - %[1]s;
update scheduler_go.walks set began = began - %[1]s, finished = finished - %[1]s;
update scheduler_go.sending set since = since - %[1]s, seen = seen - %[1]s;
update scheduler_go.lane_timeouts set claimed = claimed - %[1]s, recorded = recorded - %[1]s, timed_out = timed_out - extract(epoch from %[1]s);
update scheduler_go.share_charges set heard = heard - %[1]s;
update scheduler_go.shares set as_of = as_of - %[1]s;
update scheduler_go.run_starts set recorded = recorded - %[1]s, event_time = event_time - extract(epoch from %[1]s);
update public.task_run set scheduled = scheduled - %[1]s, started = started - %[1]s, ended = ended - %[1]s;
update public.task set next_run = next_run - %[1]s where next_run < now() + interval '1 day'`

// dueAgain is the SQL that lets the same time pass for visits without a known end.
const dueAgain = `;
update public.origin_visit_stats set last_scheduled = last_scheduled - %[1]s where last_visit is null`

const (
	giveUpTime = 10 * time.Second // in which maintenance jobs give up work, after time has passed
	idleTime   = time.Minute      // in which workers become idle
)

var timeFaults = []fault{
	{"listeners stopped for fifteen minutes", passes, 15 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		some := c.named("start-listener")
		if r.IntN(2) == 0 {
			r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			some = some[:1+r.IntN(len(some)-1)]
		}
		for _, d := range some {
			d.stop()
		}
		return fmt.Sprint(len(some), " of them"), harm{c.daemons, all}, func() {
			c.pass(15*time.Minute, "", some)
			<-time.After(giveUpTime)
			for _, d := range some {
				d.start()
			}
		}
	}},
	{"slow lane without workers for ten minutes", passes, 15 * time.Second, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		w := c.workers[slowLane]
		scaleDown(w)
		return w.name, harm{c.daemons, all}, func() {
			c.pass(11*time.Minute, "", nil)
			<-time.After(giveUpTime)
			scaleUp(w)
		}
	}},
}

// forget lets enough time pass to give up all work without events.
func (c *cluster) forget() { c.pass(8*24*time.Hour, dueAgain, nil) }

// pass lets time pass. The daemons in stopped stay stopped.
func (c *cluster) pass(d time.Duration, more string, stopped []*daemon) {
	c.t.Helper()
	// Kafka waits for killed members, 45 s each time, longer than the next call allows.
	for _, d := range c.named("journal-client") {
		if !d.ended() {
			d.stop()
		}
	}
	for _, d := range c.daemons {
		if !d.ended() {
			d.kill()
		}
	}
	defer func() {
		for _, d := range c.daemons {
			if !slices.Contains(stopped, d) {
				d.start()
			}
		}
	}()
	if busy := c.awaitIdle(); busy != "" {
		c.t.Logf("no time passes: %s", busy)
		return
	}
	interval := fmt.Sprintf("interval '%d seconds'", int(d.Seconds()))
	if _, err := c.pool.Exec(c.t.Context(), fmt.Sprintf(setBack+more, interval)); err != nil {
		c.t.Fatal(err)
	}
}

// awaitIdle waits until the workers have been idle for some seconds, and returns their remaining work if that takes
// too long.
func (c *cluster) awaitIdle() (busy string) {
	since := time.Now()
	for deadline := time.Now().Add(idleTime); time.Now().Before(deadline); <-time.After(500 * time.Millisecond) {
		c.keepWorkers()
		if busy = c.busy(); busy != "" {
			since = time.Now()
		} else if time.Since(since) > 4*time.Second {
			return ""
		}
	}
	return busy
}

// busy returns the workers' running and waiting work as a text, or why it is unknown.
func (c *cluster) busy() string {
	var found []struct {
		Name     string
		Messages int
	}
	if err := getJSON(c.t.Context(), c.broker.Nodes[0].ManagementURL+"api/queues?columns=name,messages", &found); err != nil {
		return err.Error()
	}
	for n, w := range c.workers {
		if len(c.running(w)) > 0 {
			return w.name + " runs tasks"
		}
		if w.away {
			continue
		}
		for _, q := range found {
			if slices.Contains(workerKinds[n].queues, q.Name) && q.Messages > 0 {
				return fmt.Sprintf("%s has %d messages", q.Name, q.Messages)
			}
		}
	}
	return ""
}
