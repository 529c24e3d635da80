// Package docker runs containers for package throwaway.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"

	"swh-scheduler/internal/testenv/throwaway"
)

type daemon struct{ *dockertest.Pool }

// Connect returns an error unless a daemon on this machine answers.
func Connect(ctx context.Context) (throwaway.Daemon, error) {
	if remote := os.Getenv("DOCKER_HOST"); remote != "" && !strings.HasPrefix(remote, "unix://") {
		return nil, errors.New("DOCKER_HOST is another machine")
	}
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	// A socket may accept without an answer.
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(ping); err != nil {
		return nil, fmt.Errorf("no Docker daemon answers: %w", err)
	}
	return daemon{pool}, nil
}

func (d daemon) Has(image string) bool {
	_, err := d.Client.InspectImage(image)
	return err == nil
}

func (d daemon) Pull(ctx context.Context, image string) error {
	repository, tag := splitImage(image)
	return d.Client.PullImage(docker.PullImageOptions{
		Repository: repository, Tag: tag, Context: ctx,
	}, docker.AuthConfiguration{})
}

// splitImage splits name:tag; a colon before a slash is a registry's port.
func splitImage(name string) (repository, tag string) {
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[:i], name[i+1:]
	}
	return name, "latest"
}

func (d daemon) Run(o throwaway.RunOptions) (throwaway.Container, error) {
	repository, tag := splitImage(o.Image)
	options := &dockertest.RunOptions{
		Repository: repository, Tag: tag, Env: o.Environ, Cmd: o.Command,
		Labels:       map[string]string{"swh-scheduler": "test"},
		PortBindings: map[docker.Port][]docker.PortBinding{},
	}
	for _, port := range o.Ports {
		key := docker.Port(fmt.Sprintf("%d/tcp", port))
		options.ExposedPorts = append(options.ExposedPorts, string(key))
		options.PortBindings[key] = []docker.PortBinding{{HostIP: "127.0.0.1", HostPort: fmt.Sprint(port)}}
	}
	r, err := d.RunWithOptions(options, func(c *docker.HostConfig) {
		c.AutoRemove = true
		c.PublishAllPorts = false
		if o.HostNetwork {
			c.NetworkMode, c.PortBindings = "host", nil
		}
	})
	if err != nil {
		return nil, err
	}
	// Purge kills the containers. Servers ignore the stop signal of dockertest, which would wait its whole time.
	if err := r.Expire(uint(o.Life / time.Second)); err != nil {
		return nil, errors.Join(err, d.Purge(r))
	}
	return container{d, r}, nil
}

type container struct {
	daemon   daemon
	resource *dockertest.Resource
}

func (c container) Name() string { return strings.TrimPrefix(c.resource.Container.Name, "/") }

func (c container) Wait() { _, _ = c.daemon.Client.WaitContainer(c.resource.Container.ID) }

func (c container) Remove() error { return c.daemon.Purge(c.resource) }

func (c container) Log() (string, error) {
	var tail strings.Builder
	err := c.daemon.Client.Logs(docker.LogsOptions{
		Container: c.resource.Container.ID, OutputStream: &tail, ErrorStream: &tail,
		Stdout: true, Stderr: true, Tail: "20",
	})
	return tail.String(), err
}
