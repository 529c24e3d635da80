package dispatch_test

import (
	"context"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// newClusterBench is a bench whose broker is a cluster, to the first node of which it
// connects.
func newClusterBench(t *testing.T, cluster *testenv.BrokerCluster) *bench {
	t.Helper()
	b := &bench{dsn: testenv.Database(t), broker: cluster.Nodes[0].Broker}
	b.store = b.openStore(t)
	address := parsed.Broker(t, cluster.URL())
	b.publisher = celery.NewPublisher(address, celery.PublisherOptions{})
	t.Cleanup(func() { _ = b.publisher.Close() })
	b.inspector = celery.NewQueueInspector(address, b.broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = b.inspector.Close() })
	return b
}

// start runs a deliverer until stop is called.
func (b *bench) start(t *testing.T) (d *dispatch.Deliverer, stop func()) {
	d = b.deliverer(t, b.publisher)
	return d, testenv.Run(t, func(ctx context.Context) error {
		_ = d.Run(ctx)
		return nil
	})
}

// While the node of one queue is dead or paused, or the queue has no majority, the other queues get their messages
// without a long pause. When the node is back, its queue gets each message once.
func TestQueueOfADeadNodeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	cluster := testenv.RabbitMQCluster(t, 2) // one for all, as the start of a node takes 7 s of processor time
	dying := cluster.Nodes[1]
	for _, fault := range []struct {
		name       string
		begin, end func(n *testenv.BrokerNode)
		arguments  amqp.Table // of the queue
		home       int        // of the nodes
		repeated   int        // at most
	}{
		{"killed", (*testenv.BrokerNode).Kill, (*testenv.BrokerNode).Start, nil, 1, 0},
		// RabbitMQ itself waits for five seconds with what comes behind. If that holds up
		// others for longer, their connection is reset, and messages come again.
		{"no majority", (*testenv.BrokerNode).Kill, (*testenv.BrokerNode).Start, amqp.Table{"x-queue-type": "quorum"}, 0, 2 * dispatch.DeliverBatch},
		// The last, as nodes that don't hear of each other for a minute part.
		{"stopped", (*testenv.BrokerNode).Pause, (*testenv.BrokerNode).Resume, nil, 1, 0},
	} {
		ok := t.Run(fault.name, func(t *testing.T) {
			b := newClusterBench(t, cluster)
			alive, dead := "alive beside "+fault.name, "dead: "+fault.name
			cluster.Nodes[0].Declare(alive, nil)
			cluster.Nodes[fault.home].Declare(dead, fault.arguments)
			ch := b.channel(t)
			b.enqueue(t, dead, 1)
			b.enqueue(t, alive, 1)
			d, _ := b.start(t)
			testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })

			fault.begin(dying)
			var pauses []time.Duration
			const rounds, each = 30, 200
			for i := range rounds {
				b.enqueue(t, dead, each)
				b.enqueue(t, alive, each)
				d.Wake()
				began := time.Now()
				testenv.Becomes(t, "messages", 1+(i+1)*each, func() int { return testenv.Ready(t, ch, alive) })
				pauses = append(pauses, time.Since(began))
			}
			slices.Sort(pauses)
			median, longest := pauses[rounds/2].Round(time.Millisecond), pauses[rounds-1].Round(time.Millisecond)
			t.Logf("%d messages beside a dead queue, the longest pause %s, the median %s", rounds*each, longest, median)
			// On an idle machine 8 s once, where RabbitMQ itself waits, and milliseconds.
			if longest > 40*time.Second || median > 4*time.Second {
				t.Errorf("the other queue waited for %s, mostly for %s", longest, median)
			}

			fault.end(dying)
			began := time.Now()
			testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
			t.Logf("all delivered %s after the node's return", time.Since(began).Round(time.Millisecond))
			for _, queue := range []string{dead, alive} {
				if got := b.received(t, queue); len(set(got)) != 1+rounds*each || len(got) > len(set(got))+fault.repeated {
					t.Errorf("queue %q: %d messages, %d different, want %d", queue, len(got), len(set(got)), 1+rounds*each)
				}
			}
		})
		if !ok {
			return // the cluster may be as that left it
		}
	}
}
