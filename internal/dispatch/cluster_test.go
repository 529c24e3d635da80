package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
)

// newClusterBench is a bench whose broker is a cluster of two nodes, to the first of which
// it connects.
func newClusterBench(t *testing.T) (*bench, *testenv.BrokerCluster) {
	t.Helper()
	cluster := testenv.RabbitMQCluster(t, 2)
	b := &bench{dsn: testenv.Database(t), broker: cluster.Nodes[0].Broker}
	b.store = b.openStore(t)
	address, err := celery.ParseBroker(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	b.publisher = celery.NewPublisher(address, celery.PublisherOptions{})
	t.Cleanup(func() { _ = b.publisher.Close() })
	b.inspector = celery.NewQueueInspector(address, b.broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = b.inspector.Close() })
	return b, cluster
}

// start runs a deliverer until stop is called.
func (b *bench) start(t *testing.T) (d *dispatch.Deliverer, stop func()) {
	d = b.deliverer(t, b.publisher)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return d, stop
}

// ready counts the messages of a queue on a node.
func ready(t *testing.T, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// While the node of one queue is dead, or stands still, or the queue has no majority, the
// other queues get their messages without a long pause; when the node is back, so does it,
// each message once.
func TestQueueOfADeadNodeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, end func(n *testenv.BrokerNode)
		arguments  amqp.Table // of the queue
		home       int        // of the nodes
		longest    time.Duration
		repeated   int // at most
	}{
		"killed":  {(*testenv.BrokerNode).Kill, (*testenv.BrokerNode).Start, nil, 1, 5 * time.Second, 0},
		"stopped": {(*testenv.BrokerNode).Pause, (*testenv.BrokerNode).Resume, nil, 1, 5 * time.Second, 0},
		// RabbitMQ itself waits for five seconds with what comes behind. If that holds up
		// others for longer, their connection is reset.
		"no majority": {(*testenv.BrokerNode).Kill, (*testenv.BrokerNode).Start, amqp.Table{"x-queue-type": "quorum"}, 0, 8 * time.Second, 2 * dispatch.DeliverBatch},
	} {
		t.Run(name, func(t *testing.T) {
			b, cluster := newClusterBench(t)
			dying := cluster.Nodes[1]
			cluster.Nodes[0].Declare("alive", nil)
			cluster.Nodes[fault.home].Declare("dead", fault.arguments)
			ch := b.channel(t)
			b.enqueue(t, "dead", 1)
			b.enqueue(t, "alive", 1)
			d, _ := b.start(t)
			eventually(t, func() bool { return b.outbox(t) == 0 })

			fault.begin(dying)
			var longest time.Duration
			const rounds, each = 30, 200
			for i := range rounds {
				b.enqueue(t, "dead", each)
				b.enqueue(t, "alive", each)
				d.Wake()
				began := time.Now()
				eventually(t, func() bool { return ready(t, ch, "alive") == 1+(i+1)*each })
				longest = max(longest, time.Since(began))
			}
			t.Logf("%d messages beside a dead queue, the longest pause %s", rounds*each, longest.Round(time.Millisecond))
			if longest > fault.longest {
				t.Errorf("the other queue waited for %s", longest)
			}

			fault.end(dying)
			began := time.Now()
			eventually(t, func() bool { return b.outbox(t) == 0 })
			t.Logf("all delivered %s after the node's return", time.Since(began).Round(time.Millisecond))
			for _, queue := range []string{"dead", "alive"} {
				if got := b.received(t, queue); len(set(got)) != 1+rounds*each || len(got) > len(set(got))+fault.repeated {
					t.Errorf("queue %q: %d messages, %d different, want %d", queue, len(got), len(set(got)), 1+rounds*each)
				}
			}
		})
	}
}
