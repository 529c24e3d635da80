package services

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

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// containerLife is how long a container outlives a process that was killed.
const containerLife = time.Hour

// pullTimeout bounds the wait for an image that is not on the machine.
const pullTimeout = 10 * time.Minute

// image is where a server's image may be had.
type image struct {
	variable string // environment variable that names another
	official string
	built    string // as deploy/images/build.sh makes it, where there is no registry
}

var (
	postgresImage = image{"SWH_TEST_POSTGRES_IMAGE", "postgres:15", "swh-scheduler-postgres:local"}
	rabbitMQImage = image{"SWH_TEST_RABBITMQ_IMAGE", "rabbitmq:3.13-management", "swh-scheduler-rabbitmq:local"}
	kafkaImage    = image{"SWH_TEST_KAFKA_IMAGE", "apache/kafka:3.9.1", "swh-scheduler-kafka:local"}
)

// dockerNetworkVar set to "host" has containers use the machine's own network,
// for daemons that cannot map ports.
const dockerNetworkVar = "SWH_TEST_DOCKER_NETWORK"

// containers runs servers in containers of a Docker daemon on this machine.
//
// A server listens on the same, free, loopback port inside its container and
// outside: so its configuration, Kafka's advertised address above all, is the
// same for mapped ports and for the host's network.
type containers struct {
	pool   *dockertest.Pool
	images map[image]string
	host   bool // the host's network
	log    *slog.Logger

	mu      sync.Mutex
	running []*dockertest.Resource
	stopped bool
}

// newDocker fails unless a daemon answers and every image is there.
func newDocker(ctx context.Context, log *slog.Logger) (*containers, error) {
	if remote := os.Getenv("DOCKER_HOST"); remote != "" && !strings.HasPrefix(remote, "unix://") {
		return nil, errors.New("DOCKER_HOST is another machine")
	}
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	// A socket may accept and never answer.
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(ping); err != nil {
		return nil, fmt.Errorf("no Docker daemon answers: %w", err)
	}
	d := &containers{pool: pool, images: map[image]string{}, host: os.Getenv(dockerNetworkVar) == "host", log: log}
	for _, i := range []image{postgresImage, rabbitMQImage, kafkaImage} {
		if d.images[i], err = d.obtain(ctx, i); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// obtain returns the name of an image that is on the machine: the one asked
// for, else the official one, else the one built here; else it pulls.
func (d *containers) obtain(ctx context.Context, i image) (string, error) {
	candidates := []string{i.official, i.built}
	if name := os.Getenv(i.variable); name != "" {
		candidates = []string{name}
	}
	for _, name := range candidates {
		if _, err := d.pool.Client.InspectImage(name); err == nil {
			return name, nil
		}
	}
	d.log.Info("pulling an image", "image", candidates[0])
	pull, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	repository, tag := splitImage(candidates[0])
	if err := d.pool.Client.PullImage(docker.PullImageOptions{
		Repository: repository, Tag: tag, Context: pull,
	}, docker.AuthConfiguration{}); err != nil {
		return "", fmt.Errorf("image %s is neither here nor to be had (deploy/images/build.sh builds one): %w", candidates[0], err)
	}
	return candidates[0], nil
}

// splitImage splits name:tag; a colon before a slash is a registry's port.
func splitImage(name string) (repository, tag string) {
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[:i], name[i+1:]
	}
	return name, "latest"
}

// run starts a container, removed when it ends, that listens on the ports.
func (d *containers) run(i image, ports []int, environ, command []string) (*dockertest.Resource, <-chan struct{}, error) {
	repository, tag := splitImage(d.images[i])
	options := &dockertest.RunOptions{
		Repository: repository, Tag: tag, Env: environ, Cmd: command,
		Labels:       map[string]string{"swh-scheduler": "test"},
		PortBindings: map[docker.Port][]docker.PortBinding{},
	}
	for _, port := range ports {
		key := docker.Port(fmt.Sprintf("%d/tcp", port))
		options.ExposedPorts = append(options.ExposedPorts, string(key))
		options.PortBindings[key] = []docker.PortBinding{{HostIP: "127.0.0.1", HostPort: fmt.Sprint(port)}}
	}
	r, err := d.pool.RunWithOptions(options, func(c *docker.HostConfig) {
		c.AutoRemove = true
		c.PublishAllPorts = false
		if d.host {
			c.NetworkMode, c.PortBindings = "host", nil
		}
	})
	if err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil, nil, errors.Join(context.Canceled, d.pool.Purge(r))
	}
	d.running = append(d.running, r)
	d.log.Info("started a container", "image", d.images[i], "name", strings.TrimPrefix(r.Container.Name, "/"))
	// Containers stop by Purge, which kills; dockertest gives them a stop
	// signal that servers ignore, so that this waits its whole time.
	if err := r.Expire(uint(containerLife / time.Second)); err != nil {
		return nil, nil, err
	}
	died := make(chan struct{})
	go func() {
		defer close(died)
		_, _ = d.pool.Client.WaitContainer(r.Container.ID)
	}()
	return r, died, nil
}

// explain adds the end of the container's log to an error.
func (d *containers) explain(r *dockertest.Resource, err error) error {
	if err == nil {
		return nil
	}
	var tail strings.Builder
	logErr := d.pool.Client.Logs(docker.LogsOptions{
		Container: r.Container.ID, OutputStream: &tail, ErrorStream: &tail,
		Stdout: true, Stderr: true, Tail: "20",
	})
	if logErr != nil {
		return fmt.Errorf("%w (its log is gone: %w)", err, logErr)
	}
	return fmt.Errorf("%w\nits log ends:\n%s", err, strings.TrimSpace(tail.String()))
}

func (d *containers) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	var purging sync.WaitGroup
	for _, r := range d.running {
		purging.Go(func() {
			if err := d.pool.Purge(r); err != nil {
				d.log.Warn("a container may be left", "name", r.Container.Name, "error", err)
			}
		})
	}
	purging.Wait()
	d.running = nil
}

// listen is the address a server listens on: mapped ports lead to the
// container's own interface, not to its loopback.
func (d *containers) listen() string {
	if d.host {
		return "127.0.0.1"
	}
	return "0.0.0.0"
}

func (d *containers) startPostgres(ctx context.Context) (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	r, died, err := d.run(postgresImage, ports,
		[]string{"POSTGRES_HOST_AUTH_METHOD=trust"},
		append([]string{"postgres"}, postgresSettings(
			fmt.Sprintf("port=%d", ports[0]), "listen_addresses="+d.listen())...))
	if err != nil {
		return "", err
	}
	url := fmt.Sprintf("postgresql://postgres@%s/postgres", address(ports[0]))
	return url, d.explain(r, waitReady(ctx, died, postgresReady(url)))
}

func (d *containers) startRabbitMQ(ctx context.Context) (url, managementURL string, err error) {
	amqpPorts, err := freePorts(1, managementOffset)
	if err != nil {
		return "", "", err
	}
	inner, err := freePorts(2)
	if err != nil {
		return "", "", err
	}
	port := amqpPorts[0]
	// The user "guest" may come from a loopback address only, which a mapped
	// port is not, inside.
	config := fmt.Sprintf("loopback_users = none\nlisteners.tcp.default = %[1]s:%[2]d\n"+
		"management.tcp.ip = %[1]s\nmanagement.tcp.port = %[3]d\n", d.listen(), port, port+managementOffset)
	r, died, err := d.run(rabbitMQImage, []int{port, port + managementOffset},
		[]string{
			fmt.Sprintf("RABBITMQ_NODENAME=swh%d@localhost", port),
			fmt.Sprintf("RABBITMQ_DIST_PORT=%d", inner[0]),
			fmt.Sprintf("ERL_EPMD_PORT=%d", inner[1]),
			"SWH_RABBITMQ_CONFIG=" + config,
		},
		[]string{"sh", "-c", `printf %s "$SWH_RABBITMQ_CONFIG" >/etc/rabbitmq/conf.d/99-test.conf && exec docker-entrypoint.sh rabbitmq-server`})
	if err != nil {
		return "", "", err
	}
	url, managementURL = rabbitMQURLs(port)
	return url, managementURL, d.explain(r, waitReady(ctx, died, rabbitMQReady(url, managementURL)))
}

func (d *containers) startKafka(ctx context.Context) (string, error) {
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	broker := address(ports[0])
	settings := kafkaSettings(fmt.Sprintf("%s:%d", d.listen(), ports[0]), broker, address(ports[1]))
	environ := []string{"KAFKA_HEAP_OPTS=-Xmx384m"}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		environ = append(environ, "KAFKA_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+settings[key])
	}
	r, died, err := d.run(kafkaImage, ports[:1], environ, nil)
	if err != nil {
		return "", err
	}
	return broker, d.explain(r, waitReady(ctx, died, kafkaReady(broker)))
}
