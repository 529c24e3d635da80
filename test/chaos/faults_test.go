package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"swh-scheduler/internal/testenv"
)

// harm is what a fault disturbs while it is in force.
type harm struct {
	daemons []*daemon
	queues  func(q queue) bool // nil: none
}

func all(queue) bool { return true }

func only(name string) func(queue) bool { return func(q queue) bool { return q.name == name } }

// harmOf returns the harm of a fault of a daemon, or of an RPC server, which all other daemons use.
func (c *cluster) harmOf(d *daemon) harm {
	if strings.HasPrefix(d.name, "rpc-serve") {
		return harm{c.daemons, all}
	}
	return harm{daemons: []*daemon{d}}
}

// fault is a kind of fault. service names its target; a target has one fault in force at a time. During a fault of
// the service "time" there is no other.
type fault struct {
	kind    string
	service string
	longest time.Duration // of one occurrence
	begin   func(c *cluster, r *rand.Rand) (hit string, h harm, end func())
}

const passes = "time" // a service

// allFaults are the kinds of faults that this machine can make.
func (c *cluster) allFaults() []fault {
	all := slices.Concat(daemonFaults, brokerFaults, databaseFaults, journalFaults, workerFaults, timeFaults)
	if ownClocks {
		all = append(all, clockFault)
	} else {
		c.t.Log("no clock is stepped: that needs Linux on amd64")
	}
	if disks() {
		all = append(all, diskFaults...)
	} else {
		c.t.Log("no disk is filled: that needs Linux, and root")
	}
	only, err := regexp.Compile(os.Getenv("FAULTS"))
	if err != nil {
		c.t.Fatalf("FAULTS: %v", err)
	}
	all = slices.DeleteFunc(all, func(f fault) bool { return !only.MatchString(f.kind) })
	if len(all) == 0 {
		c.t.Fatalf("FAULTS=%s matches no kind of fault", only)
	}
	return all
}

var daemonFaults = []fault{
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
	{"RPC server killed", "daemon", 5 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r, "rpc-serve")
		d.kill()
		return d.name, c.harmOf(d), d.start
	}},
	{"RPC server cut off from all daemons", "daemon", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r, "rpc-serve")
		return d.name, c.harmOf(d), cut(c.waysTo(d))
	}},
	{"RPC server slow, from all daemons and to the database", "daemon", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		d := c.anyDaemon(r, "rpc-serve")
		by := time.Duration(20+r.IntN(180)) * time.Millisecond
		ways := append(c.waysTo(d), d.database...)
		for _, way := range ways {
			way.Slow(by)
		}
		return fmt.Sprintf("%s, by %s", d.name, by), c.harmOf(d), func() {
			for _, way := range ways {
				way.Slow(0)
			}
		}
	}},
}

func nothing() {}

var clockFault = fault{"clock of a daemon stepped", "daemon", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
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
}}

// anyDaemon draws a daemon, or one whose name begins with one of names.
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

// waysTo returns all daemons' proxies to an RPC server.
func (c *cluster) waysTo(server *daemon) (ways []*testenv.Toxic) {
	n := slices.Index(c.named("rpc-serve"), server)
	for _, d := range c.daemons {
		if !strings.HasPrefix(d.name, "rpc-serve") {
			ways = append(ways, d.database[n])
		}
	}
	return ways
}

// silence silences open connections; new connections work.
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
	bag    []fault // kinds not yet drawn in this turn
	drawn  []string
}

// next draws a fault for a service without one. Each kind comes once before one comes again.
func (s *storm) next() {
	if len(s.bag) == 0 {
		s.bag = append(s.bag, s.c.faults...)
		s.random.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
	}
	f := s.bag[0]
	for _, other := range s.now {
		if other.service == f.service || other.service == passes || f.service == passes {
			return
		}
	}
	s.bag = s.bag[1:]
	s.counts[f.kind]++
	s.drawn = append(s.drawn, f.kind)
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
