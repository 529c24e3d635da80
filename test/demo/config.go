package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// configuration is the one file that the Go daemons and the Python workers read, as on an
// operator's machine. Times are in seconds. Cooldowns are those of production but one:
// origins known to have changed may be visited again at once.
const configuration = `
scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q, task_modules: [swh.demo.tasks]}
rabbitmq: {management_url: %q}
journal: {brokers: %s, prefix: %s, group_id: %s-scheduler, auto_offset_reset: earliest}
scheduling_policy:
  git:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 25, absolute_cooldown: 2}
  - {policy: origins_without_last_update, weight: 25}
no_origins_scheduled_backoff: 1
queue_full_backoff: 1
`

// writeConfiguration stores the configuration, which holds passwords, for its owner only.
func writeConfiguration(path string, r *resources) error {
	brokers, err := json.Marshal(r.kafka)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(configuration, r.dsn, r.brokerURL, r.managementURL, brokers, r.topicPrefix, r.name)
	return os.WriteFile(path, []byte(text), 0o600)
}
