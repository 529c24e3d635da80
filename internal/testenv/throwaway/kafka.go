package throwaway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// kafkaNode is one server of a Kafka cluster.
type kafkaNode struct {
	server   // whose name is that of its directory, too
	broker   string
	settings map[string]string
}

// jvm returns a command that runs a class of Kafka. The serial collector and a small heap
// suit a few topics on a small machine. The optimizing compiler doesn't pay off in
// the short life of a test server. Temporary files are removed with the node's directory.
func (n *kafkaNode) jvm(ctx context.Context, class string, args ...string) (*exec.Cmd, error) {
	java, classPath, err := findKafka()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, java, append([]string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.io.tmpdir=" + n.directory(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classPath, class}, args...)...)
	cmd.Env, cmd.Dir = n.environ(), n.directory()
	return cmd, nil
}

func (n *kafkaNode) directory() string { return filepath.Join(n.dir, n.name) }
func (n *kafkaNode) config() string    { return filepath.Join(n.directory(), "server.properties") }

// format writes the node's settings and makes its storage.
func (n *kafkaNode) format(ctx context.Context, cluster string) error {
	if err := os.Mkdir(n.directory(), 0o755); err != nil {
		return err
	}
	n.settings["log.dirs"] = filepath.Join(n.directory(), "data")
	var properties strings.Builder
	for key, value := range n.settings {
		fmt.Fprintf(&properties, "%s=%s\n", key, value)
	}
	if err := os.WriteFile(n.config(), []byte(properties.String()), 0o644); err != nil {
		return err
	}
	cmd, err := n.jvm(ctx, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", n.config())
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format its storage: %w\n%s", err, out)
	}
	return nil
}

// start starts the node, and returns when it answers.
func (n *kafkaNode) start(ctx context.Context) error {
	cmd, err := n.jvm(context.WithoutCancel(ctx), "kafka.Kafka", n.config()) // stop ends it
	if err != nil {
		return err
	}
	return n.server.start(ctx, cmd, kafkaReady(n.broker))
}

// KafkaCluster is a Kafka cluster for tests of failures. Clients reach each node without authentication and with all
// rights, or with SASL without TLS. With SASL, access control lists apply to resources that have some.
type KafkaCluster struct {
	Brokers     []string // host:port of each node
	SASLBrokers []string // host:port of the listeners with SASL

	nodes []*kafkaNode
}

// StartKafkaCluster starts a cluster of the programs installed on this machine. An odd number of its nodes vote: one
// of two, three of three. With three or more nodes, topics have by default three replicas, of which two must be in
// sync. The users and their passwords are for the mechanism PLAIN; any client of Brokers can create users for SCRAM.
// Callers call Stop.
func StartKafkaCluster(ctx context.Context, log *slog.Logger, size int, users map[string]string) (*KafkaCluster, error) {
	c, _, err := startLocal(log, "Kafka", func(l *local) (*KafkaCluster, error) {
		c := &KafkaCluster{}
		return c, c.start(ctx, l, size, users)
	})
	return c, err
}

func (c *KafkaCluster) start(ctx context.Context, l *local, size int, users map[string]string) error {
	ports, err := FreePorts(3 * size)
	if err != nil {
		return err
	}
	controllers := ports[2*size:][:size-1+size%2]
	voters := make([]string, len(controllers))
	for i, port := range controllers {
		voters[i] = fmt.Sprintf("%d@%s", i+1, address(port))
	}
	id := kafkaClusterID()
	for i := range size {
		broker, sasl := address(ports[2*i]), address(ports[2*i+1])
		settings := saslSettings(broker, sasl, users)
		maps.Copy(settings, map[string]string{
			"node.id":                   fmt.Sprint(i + 1),
			"broker.session.timeout.ms": "3000",
			"controller.quorum.voters":  strings.Join(voters, ","),
		})
		if size >= 3 {
			maps.Copy(settings, map[string]string{
				"default.replication.factor":       "3",
				"min.insync.replicas":              "2",
				"offsets.topic.replication.factor": "3",
			})
		}
		if i < len(controllers) {
			settings["listeners"] += ",CONTROLLER://" + address(controllers[i])
		} else {
			settings["process.roles"] = "broker"
		}
		n := &kafkaNode{server: server{local: l, name: fmt.Sprint("kafka-", i+1)}, broker: broker, settings: settings}
		c.nodes = append(c.nodes, n)
		c.Brokers, c.SASLBrokers = append(c.Brokers, broker), append(c.SASLBrokers, sasl)
		if err := n.format(ctx, id); err != nil {
			return err
		}
	}
	starting, ctx := errgroup.WithContext(ctx)
	for i := range c.nodes {
		starting.Go(func() error { return c.StartNode(ctx, i) })
	}
	return starting.Wait()
}

// saslSettings returns the settings of a broker with a listener for everyone and a listener for users.
func saslSettings(broker, sasl string, users map[string]string) map[string]string {
	var plain strings.Builder
	for user, password := range users {
		fmt.Fprintf(&plain, " user_%s=%q", user, password)
	}
	settings := kafkaSettings(broker, broker, "")
	const jaas = "listener.name.sasl."
	maps.Copy(settings, map[string]string{
		"listeners":                             "PLAINTEXT://" + broker + ",SASL://" + sasl,
		"advertised.listeners":                  "PLAINTEXT://" + broker + ",SASL://" + sasl,
		"listener.security.protocol.map":        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
		"inter.broker.listener.name":            "PLAINTEXT",
		"authorizer.class.name":                 "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                           "User:ANONYMOUS",
		"allow.everyone.if.no.acl.found":        "true",
		jaas + "sasl.enabled.mechanisms":        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		jaas + "plain.sasl.jaas.config":         "org.apache.kafka.common.security.plain.PlainLoginModule required" + plain.String() + ";",
		jaas + "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		jaas + "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
	})
	return settings
}

// StartNode starts a node, and returns when it answers.
func (c *KafkaCluster) StartNode(ctx context.Context, node int) error {
	return c.nodes[node].start(ctx)
}

// KillNode ends a node as kill -9 does.
func (c *KafkaCluster) KillNode(node int) { _ = c.nodes[node].Kill() }

// Stop ends the cluster and removes its data.
func (c *KafkaCluster) Stop() { c.nodes[0].stop() }
