package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/services"
)

// visitStatusTopic is the journal's topic of visits, after the prefix.
const visitStatusTopic = "origin_visit_status"

// topicPartitions is more than one, because one origin's records are then
// spread over partitions and come back in any order, as in production.
const topicPartitions = 4

// resources are the demo's own database, virtual host and topic on the servers,
// which may be shared.
type resources struct {
	name          string // of this run
	dsn           string
	brokerURL     string
	managementURL string
	kafka         []string
	topicPrefix   string
	python        string

	drops []func(context.Context) error
}

// openResources makes the database, the virtual host and the topic. What it has
// made before a failure is dropped again.
func openResources(ctx context.Context, e services.Endpoints) (*resources, error) {
	name := "swh_demo_" + strings.ToLower(rand.Text()[:8])
	r := &resources{
		name: name, managementURL: e.Management, kafka: strings.Split(e.Kafka, ","),
		topicPrefix: name + ".journal.objects", python: e.Python,
	}
	for _, open := range []func(context.Context, services.Endpoints) error{r.openDatabase, r.openVirtualHost, r.openTopic} {
		if err := open(ctx, e); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

// close drops what openResources made.
func (r *resources) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var failures []error
	for _, drop := range r.drops {
		failures = append(failures, drop(ctx))
	}
	return errors.Join(failures...)
}

func (r *resources) openDatabase(ctx context.Context, e services.Endpoints) error {
	server, err := url.Parse(e.Postgres)
	if err != nil {
		return errors.New("the PostgreSQL URL is not a URL")
	}
	execute := func(ctx context.Context, statement string) error {
		conn, err := pgx.Connect(ctx, e.Postgres)
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w", err)
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, statement)
		return err
	}
	database := pgx.Identifier{r.name}.Sanitize()
	if err := execute(ctx, "create database "+database+" template template0"); err != nil {
		return fmt.Errorf("create the demo's database: %w", err)
	}
	r.drops = append(r.drops, func(ctx context.Context) error {
		return execute(ctx, "drop database "+database+" with (force)")
	})
	server.Path = "/" + r.name
	r.dsn = server.String()
	return nil
}

func (r *resources) openVirtualHost(ctx context.Context, e services.Endpoints) error {
	server, err := url.Parse(e.RabbitMQ)
	if err != nil {
		return errors.New("the RabbitMQ URL is not a URL")
	}
	if _, err := r.manage(ctx, http.MethodPut, "", "api", "vhosts", r.name); err != nil {
		return err
	}
	r.drops = append(r.drops, func(ctx context.Context) error {
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

func (r *resources) openTopic(ctx context.Context, e services.Endpoints) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka...))
	if err != nil {
		return fmt.Errorf("reach Kafka at %q: %w", r.kafka, err)
	}
	admin := kadm.NewClient(client)
	topic := r.topicPrefix + "." + visitStatusTopic
	if _, err := admin.CreateTopic(ctx, topicPartitions, 1, nil, topic); err != nil {
		client.Close()
		return fmt.Errorf("create the demo's Kafka topic: %w", err)
	}
	r.drops = append(r.drops, func(ctx context.Context) error {
		defer client.Close()
		_, err := admin.DeleteTopic(ctx, topic)
		return err
	})
	return nil
}
