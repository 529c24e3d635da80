package chaos

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

var workerFaults = []fault{
	{"Celery worker killed", "worker", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w := c.anyWorker(r)
		w.away, w.endBy = true, time.Now()
		w.kill()
		return w.name, harm{}, func() { scaleUp(w) }
	}},
	{"Celery worker restarted", "worker", 10 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w := c.anyWorker(r)
		w.retire()
		return w.name, harm{}, nothing
	}},
	{"process of a Celery worker killed in a task", "worker", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w, pid, hit := c.anyRunning(r)
		if pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			c.harmed.processes++
		}
		return w.name + hit, harm{}, nothing
	}},
	// Half of the times, this exceeds RabbitMQ's wait for an acknowledgement.
	{"process of a Celery worker hangs in a task", "worker", 2 * consumerTimeout, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		w, pid, hit := c.anyRunning(r)
		if pid == 0 {
			return w.name + hit, harm{}, nothing
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		return w.name + hit, harm{}, func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	}},
	{"Celery workers scaled to zero", "worker", 20 * time.Second, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		scaleDown(c.workers...)
		return "all", harm{}, func() { scaleUp(c.workers...) }
	}},
}

func (c *cluster) anyWorker(r *rand.Rand) *child { return c.workers[r.IntN(len(c.workers))] }

// anyRunning draws a worker that runs a task, and its process; 0 if none runs one soon.
func (c *cluster) anyRunning(r *rand.Rand) (w *child, pid int, hit string) {
	first := r.IntN(len(c.workers))
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		for i := range c.workers {
			w := c.workers[(first+i)%len(c.workers)]
			if pids := c.running(w); len(pids) > 0 {
				pid := pids[r.IntN(len(pids))]
				return w, pid, fmt.Sprint(", process ", pid)
			}
		}
	}
	return c.workers[first], 0, ", which runs nothing"
}
