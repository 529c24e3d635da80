package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The express lane of git visits: its time limit is what a slow repository exceeds.
const (
	expressLimit = 5 // seconds
	expressSlots = 20
	slowSlots    = 10
	// archivesLimit is the max_queue_length of visits of archives.
	archivesLimit = 5
)

// configuration is the one of our daemons. Times are in seconds, where nothing else is said.
// Cooldowns are those of production but one: origins known to have changed may be visited
// again at once. The journal client is a static member of its group: one that is killed goes on when
// it is started again, instead of after Kafka's session time-out of 45 seconds.
const configuration = `
scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
journal:
  {brokers: %s, prefix: %s, group_id: %s-scheduler, auto_offset_reset: earliest, consumer_settings: {group.instance.id: one}}
scheduling_policy:
  git:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 25, absolute_cooldown: 2}
  - {policy: origins_without_last_update, weight: 25}
  tar:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 50, absolute_cooldown: 2}
no_origins_scheduled_backoff: 1
queue_full_backoff: 1
shares:
  load-git: {by: lister_instance, weights: {gitweb/%s: 1, gitweb/%s: 1}, half_life: 1 min}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: %d seconds, slots: %d}
  - {name: slow, time_limit: 10 min, slots: %d}
`

// writeFile stores a configuration, which holds passwords, for its owner only, and returns
// its path.
func (s *story) writeFile(name, text string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (r *resources) configuration() string {
	brokers, err := json.Marshal(r.kafka)
	if err != nil {
		panic(err) // of strings, it can't fail
	}
	return fmt.Sprintf(configuration, r.scheduler.dsn, r.brokerURL, r.managementURL, brokers, r.topicPrefix, r.name,
		large, small, expressLimit, expressSlots, slowSlots)
}
