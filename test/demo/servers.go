package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/swh"
	"swh-scheduler/internal/testenv/throwaway"
	"swh-scheduler/test/docker"
)

// servers has the demo's databases, virtual host and topics. They are on servers that the demo starts unless the environment
// names them. The storage has a PostgreSQL of its own, as in production.
type servers struct {
	scheduler, storage string         // URLs of their databases
	ownPostgres        string         // URL of the scheduler's server; "" if the demo didn't start it, and so may not crash it
	broker             testenv.Broker // a virtual host
	throughWay         string         // its URL by way, for all but the demo itself
	way                *testenv.Toxic // a proxy in front of the broker
	kafka              []string
	journal            string // prefix of its topics
}

func startServers(p *program, log *slog.Logger) (s servers) {
	given := throwaway.FromEnvironment()
	given.Python = testenv.ArchivePython(p) // without any other Python
	second := given                         // lacks only PostgreSQL
	second.RabbitMQ, second.Management, second.Kafka = "-", "-", "-"
	var started [2]*throwaway.Services
	start := func(i int, given throwaway.Endpoints, log *slog.Logger) func() {
		return func() {
			var err error
			started[i], err = throwaway.Start(p.ctx, throwaway.Options{Docker: docker.Connect, Given: given, Log: log})
			p.must(err)
			p.Cleanup(started[i].Stop)
		}
	}
	p.parallel(start(0, given, log), start(1, second, slog.New(slog.DiscardHandler)))

	// testenv creates databases and so on, on the servers that the environment names.
	name(started[1].Endpoints)
	s.storage = testenv.Postgres(p)
	name(started[0].Endpoints)
	if given.Postgres == "" {
		s.ownPostgres = started[0].Postgres
	}
	s.kafka = testenv.Kafka(p)
	p.parallel(
		func() { s.scheduler = testenv.Postgres(p) },
		// With several partitions the records of visits come back in any order, as in production.
		func() { s.journal = testenv.Journal(p, 4, swh.ObjectTypes...) },
		func() {
			s.broker = testenv.RabbitMQ(p)
			s.throughWay, s.way = testenv.Through(p, s.broker.URL, testenv.Proxy)
		},
	)
	return s
}

// name sets the environment variables of servers.
func name(e throwaway.Endpoints) {
	for _, variable := range e.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(name, value)
	}
}

// virtualHost returns the name of the broker's.
func (s *servers) virtualHost() string { return path.Base(s.broker.URL) }

// The express lane of git visits: slow repositories exceed its time limit.
const (
	expressLimit = 5 // seconds
	expressSlots = 20
	slowSlots    = 10
	// archivesLimit is the max_queue_length of visits of archives.
	archivesLimit = 5
)

// ofDatabase is the scheduler of the configuration of the RPC server and of commands.
func (s *servers) ofDatabase() string { return fmt.Sprintf("{cls: postgresql, db: %q}", s.scheduler) }

// configuration returns a configuration with this scheduler. Times without a unit are in seconds. Cooldowns are those
// of production, except that changed origins may be visited again at once. The journal client is a static member of
// its group. So it continues after a kill when it is started again, not after Kafka's session time-out of 45 seconds.
func (s *servers) configuration(scheduler string) string {
	brokers, _ := json.Marshal(s.kafka) // of strings, it can't fail
	return fmt.Sprintf(`
scheduler: %s
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
journal:
  {brokers: %s, prefix: %s, group_id: %[5]s-scheduler, auto_offset_reset: earliest, consumer_settings: {group.instance.id: one}}
scheduling_policy:
  git:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 25, absolute_cooldown: 2}
  - {policy: origins_without_last_update, weight: 25}
  tar:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 50, absolute_cooldown: 2}
update_metrics_after: 1 minute
no_origins_scheduled_backoff: 1
queue_full_backoff: 1
shares:
  load-git: {by: lister_instance, weights: {gitweb/%s: 1, gitweb/%s: 1}, half_life: 1 min}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: %d seconds, slots: %d}
  - {name: slow, time_limit: 10 min, slots: %d}
`, scheduler, s.throughWay, s.broker.ManagementURL, brokers, s.journal, large, small, expressLimit, expressSlots, slowSlots)
}
