package throwaway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// rabbitMQNodes are the installed server's programs, and the port mapper of its nodes.
type rabbitMQNodes struct {
	*local
	server, ctl string
	epmdPort    string
}

// newRabbitMQNodes finds the programs and starts the port mapper. Otherwise Erlang would start one that outlives the
// servers.
func (l *local) newRabbitMQNodes(ctx context.Context) (*rabbitMQNodes, error) {
	// PATH has Debian's wrapper, which changes the user and the directories.
	server, err := findProgram("rabbitmq-server", "/usr/lib/rabbitmq/bin")
	if err != nil {
		return nil, err
	}
	epmd, err := findProgram("epmd", "/usr/lib/erlang/bin")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	n := &rabbitMQNodes{local: l, server: server, ctl: filepath.Join(filepath.Dir(server), "rabbitmqctl"), epmdPort: strconv.Itoa(ports[0])}
	mapper := exec.Command(epmd, "-port", n.epmdPort, "-address", "127.0.0.1")
	mapper.Env, mapper.Dir = n.environ(), l.dir
	p, err := l.start(l.log, "epmd", mapper)
	if err != nil {
		return nil, err
	}
	if err := p.explain(waitReady(ctx, p.died, listening(ports[0]))); err != nil {
		return nil, fmt.Errorf("epmd: %w", err)
	}
	return n, nil
}

// RabbitMQNode is one server, alone or of a cluster.
type RabbitMQNode struct {
	URL, ManagementURL string

	server  // its name is Erlang's, before the @
	nodes   *rabbitMQNodes
	data    string // directory
	environ []string
	cluster *RabbitMQCluster // nil: it is alone
}

// erlangOnLoopback makes Erlang's nodes listen for each other on loopback only: anyone with access to such a port and
// the cookie may run any command.
const erlangOnLoopback = "-kernel inet_dist_use_interface {127,0,0,1}"

// newNode writes the settings of a node.
func (r *rabbitMQNodes) newNode() (*RabbitMQNode, error) {
	amqpPorts, err := FreePorts(1, managementOffset)
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	port := amqpPorts[0]
	n := &RabbitMQNode{nodes: r, server: server{local: r.local, name: fmt.Sprintf("swh%d", port)}}
	n.data = filepath.Join(r.dir, "rabbitmq-"+n.name)
	n.URL, n.ManagementURL = rabbitMQURLs(port)
	if err := os.MkdirAll(filepath.Join(n.data, "conf.d"), 0o755); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("listeners.tcp.1 = %s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n",
		address(port), port+managementOffset)
	for name, content := range map[string]string{
		"rabbitmq.conf":   config,
		"enabled_plugins": "[rabbitmq_management].\n",
	} {
		if err := os.WriteFile(filepath.Join(n.data, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	n.environ = r.local.environ(
		"ERL_EPMD_PORT="+r.epmdPort,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_CONF_ENV_FILE=/dev/null", // not the system's
		"RABBITMQ_CONFIG_FILE="+filepath.Join(n.data, "rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES="+filepath.Join(n.data, "conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+filepath.Join(n.data, "advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(n.data, "enabled_plugins"),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(n.data, "mnesia"),
		"RABBITMQ_PID_FILE="+filepath.Join(n.data, "pid"),
		"RABBITMQ_LOG_BASE="+n.data,
		"RABBITMQ_LOGS=-",
		"RABBITMQ_NODENAME="+n.erlangName(),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", ports[0]),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+erlangOnLoopback,
		"RABBITMQ_CTL_ERL_ARGS="+erlangOnLoopback,
	)
	return n, nil
}

func (n *RabbitMQNode) erlangName() string { return n.name + "@localhost" }

// Start starts the server, with the data of its last start, and returns when it is ready.
func (n *RabbitMQNode) Start(ctx context.Context) error {
	cmd := exec.Command(n.nodes.server)
	cmd.Env, cmd.Dir = n.environ, n.data
	return n.start(ctx, cmd, rabbitMQReady(n.URL, n.ManagementURL))
}

// Ctl runs rabbitmqctl on the node and returns what it prints.
func (n *RabbitMQNode) Ctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.nodes.ctl, append([]string{"--quiet", "--node", n.erlangName()}, args...)...)
	cmd.Env, cmd.Dir = n.environ, n.data
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// CutOff disconnects the node from the others of its cluster, until Rejoin: Erlang refuses a connection between nodes
// whose secrets for each other differ. Clients reach all of them.
func (n *RabbitMQNode) CutOff(ctx context.Context) error {
	_, err := n.Ctl(ctx, "eval", fmt.Sprintf("[begin erlang:set_cookie(N, apart), erlang:disconnect_node(N) end || N <- %s].", n.others()))
	return err
}

// Rejoin ends CutOff, and returns when the node serves. With cluster_partition_handling = pause_minority a
// disconnected node stops, and starts again.
func (n *RabbitMQNode) Rejoin(ctx context.Context) error {
	if _, err := n.Ctl(ctx, "eval", fmt.Sprintf("[begin erlang:set_cookie(N, erlang:get_cookie()), net_kernel:connect_node(N) end || N <- %s].", n.others())); err != nil {
		return err
	}
	return n.process.explain(waitReady(ctx, n.process.died, rabbitMQReady(n.URL, n.ManagementURL)))
}

// others returns the other nodes of its cluster, as an Erlang list.
func (n *RabbitMQNode) others() string {
	var names []string
	for _, other := range n.cluster.Nodes {
		if other != n {
			names = append(names, "'"+other.erlangName()+"'")
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// MoveLeader makes another node the leader of a quorum queue. to selects one of the others, modulo their number. It
// returns the name of the new leader.
func (n *RabbitMQNode) MoveLeader(ctx context.Context, queue string, to int) (string, error) {
	out, err := n.Ctl(ctx, "eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)),
		{Name, Leader} = amqqueue:get_pid(Q), Others = lists:sort([node() | nodes()]) -- [Leader],
		To = lists:nth(%d rem length(Others) + 1, Others), ok = ra:transfer_leadership({Name, Leader}, {Name, To}), To.`, queue, to))
	return strings.TrimSpace(out), err
}

func (l *local) startRabbitMQ(ctx context.Context) (url, managementURL string, err error) {
	nodes, err := l.newRabbitMQNodes(ctx)
	if err != nil {
		return "", "", err
	}
	n, err := nodes.newNode()
	if err != nil {
		return "", "", err
	}
	return n.URL, n.ManagementURL, n.Start(ctx)
}

// RabbitMQCluster is a cluster of installed servers, on this machine.
type RabbitMQCluster struct {
	Nodes []*RabbitMQNode
	local *local
}

// StartRabbitMQCluster starts a cluster of size nodes, with further settings ("name = value"), and returns when all
// of them are connected. Callers call Stop.
func StartRabbitMQCluster(ctx context.Context, log *slog.Logger, size int, settings ...string) (*RabbitMQCluster, error) {
	c, _, err := startLocal(log, "a RabbitMQ cluster", func(l *local) (*RabbitMQCluster, error) {
		c := &RabbitMQCluster{local: l}
		return c, c.start(ctx, size, settings)
	})
	return c, err
}

// Stop ends the servers and removes their data.
func (c *RabbitMQCluster) Stop() { c.local.stop() }

func (c *RabbitMQCluster) start(ctx context.Context, size int, settings []string) error {
	nodes, err := c.local.newRabbitMQNodes(ctx)
	if err != nil {
		return err
	}
	for range size {
		n, err := nodes.newNode()
		if err != nil {
			return err
		}
		n.cluster = c
		c.Nodes = append(c.Nodes, n)
		// Each joins the first. With RabbitMQ 4, a node with more names waits for all of them.
		config := "collect_statistics_interval = 1000\ncluster_formation.peer_discovery_backend = classic_config\n"
		for _, setting := range settings {
			config += setting + "\n"
		}
		for i, member := range slices.Compact([]*RabbitMQNode{c.Nodes[0], n}) {
			config += fmt.Sprintf("cluster_formation.classic_config.nodes.%d = %s\n", i+1, member.erlangName())
		}
		// channel_tick_interval is how often a channel checks consumer_timeout.
		const advanced = "[{rabbit, [{channel_tick_interval, 2000}]}].\n"
		err = os.WriteFile(filepath.Join(n.data, "conf.d", "cluster.conf"), []byte(config), 0o644)
		if err = errors.Join(err, os.WriteFile(filepath.Join(n.data, "advanced.config"), []byte(advanced), 0o644)); err != nil {
			return err
		}
	}
	if err := c.Nodes[0].Start(ctx); err != nil {
		return err
	}
	others, starting := errgroup.WithContext(ctx)
	for _, n := range c.Nodes[1:] {
		others.Go(func() error { return n.Start(starting) })
	}
	if err := others.Wait(); err != nil {
		return err
	}
	_, err = c.Nodes[0].Ctl(ctx, "await_online_nodes", strconv.Itoa(size))
	return err
}

// rabbitMQURLs returns the URLs of a new server, which has one user.
func rabbitMQURLs(port int) (url, managementURL string) {
	return fmt.Sprintf("amqp://guest:guest@%s/", address(port)),
		fmt.Sprintf("http://guest:guest@%s/", address(port+managementOffset))
}
