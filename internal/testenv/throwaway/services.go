package throwaway

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

// Provider is a way to run servers.
type Provider string

const (
	// Auto is Docker if a daemon answers and has or gets the images, otherwise Local.
	Auto   Provider = ""
	Docker Provider = "docker"
	Local  Provider = "local"
)

// Options of [Start].
type Options struct {
	Provider Provider
	// Docker connects to this machine's daemon.
	Docker func(context.Context) (Daemon, error)
	// Given are existing services; only the missing ones are started.
	Given Endpoints
	// Log gets the chosen provider, with the reason, and the start of each server.
	Log *slog.Logger
}

// Services are running servers.
type Services struct {
	Endpoints
	stop func()
}

// Stop ends the servers and removes their data. It returns when they are gone,
// and may be called more than once.
func (s *Services) Stop() { s.stop() }

// backend starts servers. Each start returns when the server is ready.
type backend interface {
	startPostgres(ctx context.Context) (url string, err error)
	startRabbitMQ(ctx context.Context) (url, managementURL string, err error)
	startKafka(ctx context.Context) (brokers string, err error)
	stop()
}

// Start starts, in parallel, the services that are not in o.Given, and returns when
// all are ready.
func Start(ctx context.Context, o Options) (*Services, error) {
	s := &Services{Endpoints: o.Given, stop: func() {}}
	if s.Python == "" {
		python, err := findPython()
		if err != nil {
			return nil, err
		}
		s.Python = python
	}
	if s.Postgres != "" && s.RabbitMQ != "" && s.Management != "" && s.Kafka != "" {
		return s, nil
	}
	b, err := newBackend(ctx, o)
	if err != nil {
		return nil, err
	}
	s.stop = b.stop

	starting, ctx := errgroup.WithContext(ctx)
	for _, server := range []struct {
		name    string
		missing bool
		start   func() error
	}{
		{"PostgreSQL", s.Postgres == "", func() (err error) { s.Postgres, err = b.startPostgres(ctx); return err }},
		{"RabbitMQ", s.RabbitMQ == "" || s.Management == "", func() (err error) { s.RabbitMQ, s.Management, err = b.startRabbitMQ(ctx); return err }},
		{"Kafka", s.Kafka == "", func() (err error) { s.Kafka, err = b.startKafka(ctx); return err }},
	} {
		if server.missing {
			starting.Go(func() error {
				if err := server.start(); err != nil {
					return fmt.Errorf("start %s: %w", server.name, err)
				}
				return nil
			})
		}
	}
	if err := starting.Wait(); err != nil {
		b.stop()
		return nil, err
	}
	return s, nil
}

func newBackend(ctx context.Context, o Options) (backend, error) {
	switch o.Provider {
	case Local:
		return newLocal(o.Log)
	case Docker:
		return newContainers(ctx, o)
	case Auto:
		b, err := newContainers(ctx, o)
		if err != nil {
			o.Log.Info("starting local servers, as Docker cannot be used", "reason", err)
			return newLocal(o.Log)
		}
		return b, nil
	default:
		return nil, fmt.Errorf("unknown provider of services %q: want docker or local", o.Provider)
	}
}
