package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// brokerSettings are the settings of each RabbitMQ node. A node without the majority stops. After consumerTimeout
// RabbitMQ redelivers unacknowledged messages and closes their channel. In production that is half an hour, for tasks
// of hours; here for tasks of at most 3 s.
var brokerSettings = []string{
	"cluster_partition_handling = pause_minority",
	fmt.Sprintf("consumer_timeout = %d", consumerTimeout.Milliseconds()),
}

const consumerTimeout = 15 * time.Second

var brokerFaults = []fault{
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
	{"RabbitMQ node apart from the majority", "rabbitmq", 20 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := r.IntN(len(c.broker.Nodes))
		c.broker.Nodes[n].CutOff()
		return fmt.Sprint("node ", n+1), harm{c.daemons, all}, c.broker.Nodes[n].Rejoin
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
	{"leader of a quorum queue moved", "rabbitmq", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		q := anyQueue(r, func(q queue) bool { return q.kind == "quorum" })
		to := c.broker.Nodes[0].MoveLeader(q.name, r.IntN(len(c.broker.Nodes)))
		return q.name + " to " + to, harm{c.daemons, only(q.name)}, nothing
	}},
	// A classic queue, as senders declare a missing queue without arguments. Its lost messages are sent again as
	// other messages, once they are given up.
	{"queue deleted", "rabbitmq", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		q := c.filled(r.IntN(len(queues)))
		n := c.broker.Nodes[q.node].Delete(q.name)
		return fmt.Sprintf("%s, with %d messages", q.name, n), harm{c.daemons, only(q.name)}, nothing
	}},
}

// filled returns a classic queue with messages, the first from a place on; any queue if none has some soon.
func (c *cluster) filled(first int) (q queue) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		for i := range queues {
			q = queues[(first+i)%len(queues)]
			if q.kind == "classic" && c.broker.Nodes[q.node].Ready(q.name) > 0 {
				return q
			}
		}
	}
	for i := 0; q.kind != "classic"; i++ {
		q = queues[(first+i)%len(queues)]
	}
	return q
}

func homedOn(node int) func(queue) bool {
	return func(q queue) bool { return q.kind == "quorum" || q.node == node }
}

func anyQueue(r *rand.Rand, among func(queue) bool) queue {
	some := slices.DeleteFunc(slices.Clone(queues), func(q queue) bool { return !among(q) })
	return some[r.IntN(len(some))]
}
