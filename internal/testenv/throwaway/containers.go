package throwaway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// containerLife is how long a container outlives a process that was killed.
const containerLife = time.Hour

// pullTimeout is the time limit for pulling an image.
const pullTimeout = 10 * time.Minute

// Daemon is the Docker daemon of this machine. Its implementation has many dependencies that the scheduler
// doesn't need, so it is in another module (test/docker).
type Daemon interface {
	// Has reports whether an image is on the machine.
	Has(image string) bool
	Pull(ctx context.Context, image string) error
	Run(o RunOptions) (Container, error)
}

// RunOptions say how to run a container.
type RunOptions struct {
	Image            string
	Ports            []int // ports of the container that are mapped to the same loopback ports of the machine
	HostNetwork      bool  // use the machine's network instead
	Environ, Command []string
	Life             time.Duration // the container ends after this time
}

// Container is a running container, which is removed when it ends.
type Container interface {
	Name() string
	Wait()
	// Log returns the end of its output.
	Log() (string, error)
	Remove() error
}

// image has the sources of a server's image.
type image struct {
	variable string // environment variable with the name of another image
	official string
	built    string // built by deploy/images/build.sh, for machines without a registry
}

var (
	postgresImage = image{"SWH_TEST_POSTGRES_IMAGE", "postgres:15", "swh-scheduler-postgres:local"}
	rabbitMQImage = image{"SWH_TEST_RABBITMQ_IMAGE", "rabbitmq:3.13-management", "swh-scheduler-rabbitmq:local"}
	kafkaImage    = image{"SWH_TEST_KAFKA_IMAGE", "apache/kafka:3.9.1", "swh-scheduler-kafka:local"}
)

// dockerNetworkVar makes containers use the machine's network if it is "host", for daemons that can't map ports.
const dockerNetworkVar = "SWH_TEST_DOCKER_NETWORK"

// containers runs servers in containers.
//
// A server listens on the same free loopback port inside and outside its container. So its
// configuration, in particular Kafka's advertised address, is the same for mapped ports and for the host's
// network.
type containers struct {
	daemon Daemon
	images map[image]string
	host   bool // the host's network
	log    *slog.Logger

	mu      sync.Mutex
	running []Container
	stopped bool
}

// newContainers returns an error unless a daemon answers and has or gets all images.
func newContainers(ctx context.Context, o Options) (*containers, error) {
	daemon, err := o.Docker(ctx)
	if err != nil {
		return nil, err
	}
	d := &containers{daemon: daemon, images: map[image]string{}, host: os.Getenv(dockerNetworkVar) == "host", log: o.Log}
	for _, i := range []image{postgresImage, rabbitMQImage, kafkaImage} {
		if d.images[i], err = d.obtain(ctx, i); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// obtain returns the name of an image that is on the machine: the one named by the environment variable, or else the
// official one or the one built here. If there is none, it pulls.
func (d *containers) obtain(ctx context.Context, i image) (string, error) {
	candidates := []string{i.official, i.built}
	if name := os.Getenv(i.variable); name != "" {
		candidates = []string{name}
	}
	if found := slices.IndexFunc(candidates, d.daemon.Has); found >= 0 {
		return candidates[found], nil
	}
	d.log.Info("pulling an image", "image", candidates[0])
	pull, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if err := d.daemon.Pull(pull, candidates[0]); err != nil {
		return "", fmt.Errorf("image %s is neither here nor to be had (deploy/images/build.sh builds one): %w", candidates[0], err)
	}
	return candidates[0], nil
}

// start starts a container that listens on the ports, and returns when it is ready.
func (d *containers) start(ctx context.Context, i image, ports []int, environ, command []string, ready func(context.Context) error) error {
	c, err := d.daemon.Run(RunOptions{
		Image: d.images[i], Ports: ports, HostNetwork: d.host, Environ: environ, Command: command, Life: containerLife,
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return errors.Join(context.Canceled, c.Remove())
	}
	d.running = append(d.running, c)
	d.mu.Unlock()
	d.log.Info("started a container", "image", d.images[i], "name", c.Name())
	died := make(chan struct{})
	go func() {
		defer close(died)
		c.Wait()
	}()
	if err = waitReady(ctx, died, ready); err == nil {
		return nil
	}
	tail, logErr := c.Log()
	if logErr != nil {
		return fmt.Errorf("%w (its log is gone: %w)", err, logErr)
	}
	return fmt.Errorf("%w\nits log ends:\n%s", err, strings.TrimSpace(tail))
}

func (d *containers) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	var removing sync.WaitGroup
	for _, c := range d.running {
		removing.Go(func() {
			if err := c.Remove(); err != nil {
				d.log.Warn("a container may be left", "name", c.Name(), "error", err)
			}
		})
	}
	removing.Wait()
	d.running = nil
}

// listen returns the address that servers listen on. Mapped ports lead to the
// container's network interface, not to its loopback.
func (d *containers) listen() string {
	if d.host {
		return "127.0.0.1"
	}
	return "0.0.0.0"
}

func (d *containers) startPostgres(ctx context.Context) (string, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	url := fmt.Sprintf("postgresql://postgres@%s/postgres", address(ports[0]))
	return url, d.start(ctx, postgresImage, ports, []string{"POSTGRES_HOST_AUTH_METHOD=trust"},
		append([]string{"postgres"}, postgresSettings(fmt.Sprintf("port=%d", ports[0]), "listen_addresses="+d.listen())...),
		postgresReady(url))
}

func (d *containers) startRabbitMQ(ctx context.Context) (url, managementURL string, err error) {
	amqpPorts, err := FreePorts(1, managementOffset)
	if err != nil {
		return "", "", err
	}
	inner, err := FreePorts(2)
	if err != nil {
		return "", "", err
	}
	port := amqpPorts[0]
	// The user "guest" may come from a loopback address only, which a mapped
	// port is not, inside.
	config := fmt.Sprintf("loopback_users = none\nlisteners.tcp.default = %[1]s:%[2]d\n"+
		"management.tcp.ip = %[1]s\nmanagement.tcp.port = %[3]d\n", d.listen(), port, port+managementOffset)
	url, managementURL = rabbitMQURLs(port)
	return url, managementURL, d.start(ctx, rabbitMQImage, []int{port, port + managementOffset},
		[]string{
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + erlangOnLoopback,
			"ERL_EPMD_ADDRESS=127.0.0.1",
			fmt.Sprintf("RABBITMQ_NODENAME=swh%d@localhost", port),
			fmt.Sprintf("RABBITMQ_DIST_PORT=%d", inner[0]),
			fmt.Sprintf("ERL_EPMD_PORT=%d", inner[1]),
			"SWH_RABBITMQ_CONFIG=" + config,
		},
		[]string{"sh", "-c", `printf %s "$SWH_RABBITMQ_CONFIG" >/etc/rabbitmq/conf.d/99-test.conf && exec docker-entrypoint.sh rabbitmq-server`},
		rabbitMQReady(url, managementURL))
}

func (d *containers) startKafka(ctx context.Context) (string, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return "", err
	}
	broker := address(ports[0])
	settings := kafkaSettings(fmt.Sprintf("%s:%d", d.listen(), ports[0]), broker, address(ports[1]))
	environ := []string{"KAFKA_HEAP_OPTS=-Xmx384m"}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		environ = append(environ, "KAFKA_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+settings[key])
	}
	return broker, d.start(ctx, kafkaImage, ports[:1], environ, nil, kafkaReady(broker))
}
