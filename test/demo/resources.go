package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/archive"
	"swh-scheduler/internal/services"
	"swh-scheduler/test/docker"
)

// visitStatusTopic is the journal's topic of visits, after the prefix.
const visitStatusTopic = "origin_visit_status"

// topicPartitions is more than one, because one origin's records are then
// spread over partitions and come back in any order, as in production.
const topicPartitions = 4

// database is the demo's own on a server, which may be shared.
type database struct {
	server, dsn string
}

// resources are what the demo has on the servers, which it starts unless the environment
// names them. The storage has a PostgreSQL of its own, as in production.
type resources struct {
	name               string // of this run
	scheduler, storage database
	ownServer          bool // the scheduler's PostgreSQL is the demo's, and may be crashed
	brokerURL          string
	managementURL      string
	kafka              []string
	topicPrefix        string
	python             string // of the archive's environment

	closers []func(context.Context) error // called in reverse
}

// openResources starts the servers and makes databases, virtual host and topics.
func openResources(ctx context.Context, o options) (_ *resources, err error) {
	r := &resources{name: "swh_demo_" + strings.ToLower(rand.Text()[:8])}
	r.topicPrefix = r.name + ".journal.objects"
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.python, err = services.FindArchive(); err != nil {
		return nil, err
	}
	given := services.FromEnvironment()
	r.ownServer = given.Postgres == ""
	// Only PostgreSQL is missing for the storage.
	second := services.Endpoints{Postgres: given.Postgres, RabbitMQ: "-", Management: "-", Kafka: "-"}
	servers := make([]*services.Services, 2)
	starting, startCtx := errgroup.WithContext(ctx)
	for i, given := range []services.Endpoints{given, second} {
		given.Python = r.python // no other is used
		log := o.Log
		if i > 0 {
			log = slog.New(slog.DiscardHandler) // it would say the same
		}
		starting.Go(func() (err error) {
			servers[i], err = services.Start(startCtx, services.Options{Docker: docker.Connect, Given: given, Log: log})
			return err
		})
	}
	err = starting.Wait()
	for _, s := range servers {
		if s != nil {
			r.closers = append(r.closers, func(context.Context) error { s.Stop(); return nil })
		}
	}
	if err != nil {
		return nil, err
	}
	e := servers[0].Endpoints
	r.managementURL, r.kafka = e.Management, strings.Split(e.Kafka, ",")
	if r.scheduler, err = r.openDatabase(ctx, e.Postgres, r.name); err != nil {
		return nil, err
	}
	if r.storage, err = r.openDatabase(ctx, servers[1].Postgres, r.name+"_storage"); err != nil {
		return nil, err
	}
	if err := r.openVirtualHost(ctx, e.RabbitMQ); err != nil {
		return nil, err
	}
	return r, r.openTopics(ctx)
}

// close drops what openResources made.
func (r *resources) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var failures []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		failures = append(failures, r.closers[i](ctx))
	}
	r.closers = nil
	return errors.Join(failures...)
}

// asSuperuser runs a statement as the superuser of a server, by a connection of its own.
func asSuperuser(ctx context.Context, server, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement, args...)
	return err
}

func (r *resources) openDatabase(ctx context.Context, server, name string) (d database, err error) {
	at, err := url.Parse(server)
	if err != nil {
		return d, errors.New("the PostgreSQL URL is not a URL")
	}
	quoted := pgx.Identifier{name}.Sanitize()
	if err := asSuperuser(ctx, server, "create database "+quoted+" template template0"); err != nil {
		return d, fmt.Errorf("create the demo's database: %w", err)
	}
	r.closers = append(r.closers, func(ctx context.Context) error {
		return asSuperuser(ctx, server, "drop database "+quoted+" with (force)")
	})
	at.Path = "/" + name
	return database{server, at.String()}, nil
}

func (r *resources) openVirtualHost(ctx context.Context, broker string) error {
	server, err := url.Parse(broker)
	if err != nil {
		return errors.New("the RabbitMQ URL is not a URL")
	}
	if _, err := r.manage(ctx, http.MethodPut, "", "api", "vhosts", r.name); err != nil {
		return err
	}
	r.closers = append(r.closers, func(ctx context.Context) error {
		_, err := r.manage(ctx, http.MethodDelete, "", "api", "vhosts", r.name)
		return err
	})
	server.Path = "/" + r.name
	r.brokerURL = server.String()
	_, err = r.manage(ctx, http.MethodPut, `{"configure": ".*", "write": ".*", "read": ".*"}`,
		"api", "permissions", r.name, server.User.Username())
	return err
}

// manage calls RabbitMQ's management API and returns its answer.
func (r *resources) manage(ctx context.Context, method, body string, path ...string) ([]byte, error) {
	target, err := url.Parse(r.managementURL)
	if err != nil {
		return nil, errors.New("the RabbitMQ management URL is not a URL")
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	target = target.JoinPath(path...)
	request, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("RabbitMQ management: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("RabbitMQ management: %s %s: %s: %s", method, target.Path, response.Status, answer)
	}
	return answer, err
}

// openTopics makes the topics of the storage's journal.
func (r *resources) openTopics(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka...))
	if err != nil {
		return fmt.Errorf("reach Kafka at %q: %w", r.kafka, err)
	}
	admin := kadm.NewClient(client)
	var topics []string
	for _, object := range append([]string{visitStatusTopic}, archive.ObjectTypes...) {
		topics = append(topics, r.topicPrefix+"."+object)
	}
	if _, err := admin.CreateTopics(ctx, topicPartitions, 1, nil, topics...); err != nil {
		client.Close()
		return fmt.Errorf("create the demo's Kafka topics: %w", err)
	}
	r.closers = append(r.closers, func(ctx context.Context) error {
		defer client.Close()
		_, err := admin.DeleteTopics(ctx, topics...)
		return err
	})
	return nil
}
