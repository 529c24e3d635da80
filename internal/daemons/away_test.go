package daemons_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/journal"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// gauge returns the values of a gauge by one of its labels; of several the largest.
func gauge(t *testing.T, metrics *prometheus.Registry, name, label string) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label {
					values[l.GetValue()] = max(values[l.GetValue()], m.GetGauge().GetValue())
				}
			}
		}
	}
	return values
}

// Each daemon shows which of its services is away, and none when all are back.
func TestServicesThatAreAwayAreShown(t *testing.T) {
	t.Parallel()
	all := options(t, "test")
	all.MetricsAddr = "127.0.0.1:0"
	all.Config.Journal.Brokers, all.Config.Journal.GroupID = []string{"127.0.0.1:1"}, "group"
	brokerURL, broker := testenv.Through(t, string(all.Config.Celery.TaskBroker), testenv.Proxy)
	managementURL, management := testenv.Through(t, string(all.Config.RabbitMQ.ManagementURL), testenv.Proxy)
	all.Config.Celery.TaskBroker, all.Config.RabbitMQ.ManagementURL = config.Secret(brokerURL), config.Secret(managementURL)
	store, err := all.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dsn, database := testenv.Through(t, store.Pool().Config().ConnString(), testenv.Proxy)
	all.OpenStore = func(ctx context.Context) (*db.Store, error) {
		return db.Open(ctx, dsn, postgres.Options{Command: "test"})
	}

	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	registries := map[string]*prometheus.Registry{}
	start := func(name string, run func(process.Options) error) {
		o := all
		o.Command, o.Metrics = name, prometheus.NewRegistry()
		registries[name] = o.Metrics
		ended.Go(func() {
			if err := run(o); err != nil {
				t.Error(err)
			}
		})
	}
	start("start-runner", func(o process.Options) error {
		r := daemons.Runner{Options: o, Period: time.Second}
		return r.Run(ctx)
	})
	start("start-listener", func(o process.Options) error {
		l := daemons.Listener{Options: o}
		return l.Run(ctx)
	})
	start("rpc-serve", func(o process.Options) error {
		r := daemons.RPC{Options: o, Address: "127.0.0.1:0"}
		return r.Run(ctx)
	})
	start("journal-client", func(o process.Options) error {
		j := daemons.Journal{Options: o, Read: func(ctx context.Context, client *journal.Client) error {
			_, err := client.Run(ctx)
			return err
		}}
		return j.Run(ctx)
	})
	wait := func(what string, holds func() string) {
		t.Helper()
		testenv.Becomes(t, what, "", holds)
	}
	// shown waits until the services with these letters are shown as away, and no others.
	services := map[string]string{"p": "PostgreSQL", "r": "RabbitMQ", "m": "the management API", "k": "Kafka"}
	shown := func(what string, away map[string]string) {
		t.Helper()
		wait(what, func() string {
			for name, letters := range away {
				waiting := gauge(t, registries[name], "swh_scheduler_service_unreachable_seconds", "service")
				for letter, service := range services {
					if seconds, known := waiting[service]; strings.Contains(letters, letter) != (known && seconds > 0) {
						return fmt.Sprintf("%s: %s: %v", name, service, waiting)
					}
				}
			}
			return ""
		})
	}
	shown("at first", map[string]string{"start-runner": "", "start-listener": "", "rpc-serve": "", "journal-client": "k"})
	database.Cut()
	shown("without a database", map[string]string{"start-runner": "p", "start-listener": "p", "rpc-serve": "p", "journal-client": "pk"})
	broker.Cut()
	management.Cut()
	shown("without anything", map[string]string{"start-runner": "prm", "start-listener": "prm", "rpc-serve": "p", "journal-client": "pk"})
	for _, proxy := range []*testenv.Toxic{database, broker, management} {
		proxy.Restore()
	}
	shown("when all is back", map[string]string{"start-runner": "", "start-listener": "", "rpc-serve": "", "journal-client": "k"})
}
