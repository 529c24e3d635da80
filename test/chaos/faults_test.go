package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"swh-scheduler/internal/testenv"
)

// harm is what can't be expected to work while a fault is in force.
type harm struct {
	daemons []*daemon
	queues  func(q queue) bool // nil: none
}

func all(queue) bool { return true }

// harmOf is the harm of a fault of a daemon, or of an RPC server, through which all others work.
func (c *cluster) harmOf(d *daemon) harm {
	if strings.HasPrefix(d.name, "rpc-serve") {
		return harm{c.daemons, all}
	}
	return harm{daemons: []*daemon{d}}
}

// fault is a kind of fault. What is begun is ended; service names what it hits, of which
// only one fault is in force at a time.
type fault struct {
	kind    string
	service string
	longest time.Duration // that it is in force
	begin   func(c *cluster, r *rand.Rand) (hit string, h harm, end func())
}

var faults = []fault{
	{"daemon killed", "daemon", 5 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r)
		d.kill()
		return d.name, c.harmOf(d), d.start
	}},
	{"daemon stopped and continued", "daemon", 40 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r)
		d.signal(syscall.SIGSTOP)
		return d.name, c.harmOf(d), func() { d.signal(syscall.SIGCONT) }
	}},
	{"database connections of a daemon silent", "daemon", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r)
		silence(d.database...)
		return d.name, c.harmOf(d), nothing
	}},
	{"database connections of all daemons silent", "postgres", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		for _, d := range c.daemons {
			silence(d.database...)
		}
		return "all", harm{c.daemons, all}, nothing
	}},
	{"database cut off from a daemon", "daemon", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r)
		return d.name, c.harmOf(d), cut(d.database)
	}},
	{"broker connections of a daemon silent", "daemon", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r, "start-", "schedule-")
		silence(d.broker...)
		return d.name, harm{daemons: []*daemon{d}}, nothing
	}},
	{"broker cut off from a daemon", "daemon", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r, "start-", "schedule-")
		return d.name, harm{daemons: []*daemon{d}}, cut(d.broker)
	}},
	{"management API swallows", "rabbitmq", 30 * time.Second, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		for _, d := range c.daemons {
			d.api.Silence(true)
		}
		return "all", harm{queues: all}, func() {
			for _, d := range c.daemons {
				d.api.Cut()
				d.api.Restore()
			}
		}
	}},
	{"RabbitMQ node killed", "rabbitmq", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := r.IntN(len(c.broker.Nodes))
		c.broker.Nodes[n].Kill()
		return fmt.Sprint("node ", n+1), harm{c.daemons, homedOn(n)}, c.broker.Nodes[n].Start
	}},
	{"RabbitMQ node paused", "rabbitmq", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := r.IntN(len(c.broker.Nodes))
		c.broker.Nodes[n].Pause()
		return fmt.Sprint("node ", n+1), harm{c.daemons, all}, c.broker.Nodes[n].Resume
	}},
	{"RabbitMQ memory alarm", "rabbitmq", 30 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := c.broker.Nodes[r.IntN(len(c.broker.Nodes))]
		n.Ctl("set_vm_memory_high_watermark", "0.00001")
		return "all", harm{c.daemons, all}, func() { n.Ctl("set_vm_memory_high_watermark", "0.4") }
	}},
	{"RabbitMQ disk alarm", "rabbitmq", 30 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := c.broker.Nodes[r.IntN(len(c.broker.Nodes))]
		n.Ctl("set_disk_free_limit", "100000GB")
		return "all", harm{c.daemons, all}, func() { n.Ctl("set_disk_free_limit", "50MB") }
	}},
	{"PostgreSQL primary killed, standby promoted", "postgres", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		c.database.Kill()
		return "all", harm{c.daemons, all}, c.database.Promote
	}},
	{"Kafka broker killed", "kafka", 15 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := r.IntN(len(c.kafka.Brokers))
		c.kafka.KillNode(n)
		return fmt.Sprint("broker ", n+1), harm{daemons: c.named("journal-client")}, func() {
			if err := c.kafka.StartNode(c.t.Context(), n); err != nil {
				c.t.Fatal(err)
			}
		}
	}},
	{"Celery worker killed", "worker", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w := c.workers[r.IntN(len(c.workers))]
		w.kill()
		return w.name, harm{}, w.start
	}},
	{"Celery worker restarted", "worker", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w := c.workers[r.IntN(len(c.workers))]
		// Only the parent: its children end their tasks. keepWorkers starts it again.
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		w.endBy = time.Now().Add(time.Minute)
		return w.name, harm{}, nothing
	}},
}

func init() {
	if !ownClocks {
		return
	}
	faults = append(faults, fault{"clock of a daemon stepped", "daemon", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r)
		ahead := time.Duration(10+r.IntN(600)) * time.Second
		if r.IntN(2) == 0 {
			ahead = -ahead
		}
		step := func(ahead time.Duration) {
			if err := d.clock.step(ahead); err != nil {
				c.t.Error(err)
			}
		}
		step(ahead)
		return fmt.Sprintf("%s, by %s", d.name, ahead), c.harmOf(d), func() { step(0) }
	}})
}

func nothing() {}

// anyDaemon draws one of the daemons, or of those whose names begin in one of these ways.
func (c *cluster) anyDaemon(r *rand.Rand, names ...string) *daemon {
	for {
		d := c.daemons[r.IntN(len(c.daemons))]
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(d.name, name) }) {
			return d
		}
	}
}

func (c *cluster) named(command string) (found []*daemon) {
	for _, d := range c.daemons {
		if strings.HasPrefix(d.name, command) {
			found = append(found, d)
		}
	}
	return found
}

// silence has what is open fall silent; new connections work.
func silence(ways ...*testenv.Toxic) {
	for _, way := range ways {
		way.Silence(false)
	}
}

func cut(ways []*testenv.Toxic) (restore func()) {
	for _, way := range ways {
		way.Cut()
	}
	return func() {
		for _, way := range ways {
			way.Restore()
		}
	}
}

func homedOn(node int) func(queue) bool {
	return func(q queue) bool { return q.kind == "quorum" || q.node == node }
}

// inForce is a fault that has not ended.
type inForce struct {
	fault
	harm
	hit   string
	until time.Time
	end   func()
}

// storm draws faults.
type storm struct {
	c      *cluster
	w      *watcher
	random *rand.Rand
	now    []inForce
	counts map[string]int
	bag    []fault // kinds still to be drawn in this turn
}

// next draws a fault of a service that has none: each kind comes once before one comes
// again.
func (s *storm) next() {
	if len(s.bag) == 0 {
		s.bag = append(s.bag, faults...)
		s.random.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
	}
	f := s.bag[0]
	for _, other := range s.now {
		if other.service == f.service {
			return
		}
	}
	s.bag = s.bag[1:]
	s.counts[f.kind]++
	lasts := time.Duration(s.random.Float64() * float64(f.longest))
	hit, h, end := f.begin(s.c, s.random)
	s.w.begin(h)
	s.c.t.Logf("%s %s: %s, %s", s.w.age(), f.kind, hit, lasts.Round(time.Second))
	s.now = append(s.now, inForce{fault: f, harm: h, hit: hit, until: time.Now().Add(lasts), end: end})
}

// endThose ends the faults whose time is over, or all.
func (s *storm) endThose(whatever bool) {
	var left []inForce
	for _, f := range s.now {
		if !whatever && time.Now().Before(f.until) {
			left = append(left, f)
			continue
		}
		f.end()
		s.w.end(f.harm)
		s.c.t.Logf("%s %s: %s, over", s.w.age(), f.kind, f.hit)
		if strings.HasPrefix(f.kind, "PostgreSQL primary") {
			s.c.database.Rejoin()
		}
	}
	s.now = left
}

// hits reports whether a fault in force hits a worker.
func (s *storm) hits(w *child) bool {
	return slices.ContainsFunc(s.now, func(f inForce) bool { return f.hit == w.name })
}
