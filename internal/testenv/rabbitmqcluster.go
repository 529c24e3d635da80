package testenv

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv/throwaway"
)

// BrokerCluster is a RabbitMQ cluster of the test, with the virtual host "/".
type BrokerCluster struct {
	Nodes []*BrokerNode
}

// BrokerNode is a server of a cluster.
type BrokerNode struct {
	Broker
	t    testing.TB
	node *throwaway.RabbitMQNode
}

// RabbitMQCluster starts a cluster of the installed servers, with further settings ("name = value"), until the test
// ends. It takes some ten seconds.
func RabbitMQCluster(t testing.TB, nodes int, settings ...string) *BrokerCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*setupTimeout)
	defer cancel()
	cluster, err := throwaway.StartRabbitMQCluster(ctx, slog.New(slog.DiscardHandler), nodes, settings...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(cluster.Stop)
	c := new(BrokerCluster)
	for _, n := range cluster.Nodes {
		c.Nodes = append(c.Nodes, &BrokerNode{Broker: Broker{URL: n.URL, ManagementURL: n.ManagementURL}, t: t, node: n})
	}
	return c
}

// URL lists the nodes in the order in which a client tries them.
func (c *BrokerCluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		urls[i] = n.URL
	}
	return strings.Join(urls, ";")
}

// Declare declares a durable queue on the node: a classic one lives there only.
func (n *BrokerNode) Declare(queue string, arguments amqp.Table) {
	n.t.Helper()
	conn, err := amqp.Dial(n.URL)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, arguments)
	}
	if err != nil {
		n.t.Fatalf("testenv: declare queue %q: %v", queue, err)
	}
}

// Kill ends the node like a power cut, and returns when it has ended.
func (n *BrokerNode) Kill() { n.check(n.node.Kill()) }

// Start starts the node again, with its data, and returns when it serves.
func (n *BrokerNode) Start() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*setupTimeout)
	defer cancel()
	n.check(n.node.Start(ctx))
}

// CutOff disconnects the node from the others of its cluster, until Rejoin. Clients reach all of them.
func (n *BrokerNode) CutOff() { n.check(n.node.CutOff(context.Background())) }

// Rejoin ends CutOff, and returns when the node serves.
func (n *BrokerNode) Rejoin() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*setupTimeout)
	defer cancel()
	n.check(n.node.Rejoin(ctx))
}

// MoveLeader makes another node the leader of a quorum queue. to selects one of the others, modulo their number. It
// returns the old and the new leader.
func (n *BrokerNode) MoveLeader(queue string, to int) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	moved, err := n.node.MoveLeader(ctx, queue, to)
	n.check(err)
	return moved
}

// Ready returns the number of ready messages of a queue; 0 if it is unknown.
func (n *BrokerNode) Ready(queue string) int {
	conn, err := amqp.Dial(n.URL)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return 0
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0
	}
	return q.Messages
}

// Delete deletes a queue with its messages.
func (n *BrokerNode) Delete(queue string) (messages int) {
	n.t.Helper()
	conn, err := amqp.Dial(n.URL)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		messages, err = ch.QueueDelete(queue, false, false, false)
	}
	if err != nil {
		n.t.Fatalf("testenv: delete queue %q: %v", queue, err)
	}
	return messages
}

// Pause stops the node's process with its connections open; Resume continues it.
func (n *BrokerNode) Pause()  { n.check(n.node.Pause()) }
func (n *BrokerNode) Resume() { n.check(n.node.Resume()) }

// Ctl runs rabbitmqctl on the node and returns what it prints.
func (n *BrokerNode) Ctl(args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	out, err := n.node.Ctl(ctx, args...)
	n.check(err)
	return out
}

func (n *BrokerNode) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("testenv: %v", err)
	}
}
