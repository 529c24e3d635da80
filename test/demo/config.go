package main

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// configuration is the one file that the Go daemons and the Python workers
// read, as on an operator's machine.
type configuration struct {
	Scheduler struct {
		Class string `yaml:"cls"`
		DB    string `yaml:"db"`
	} `yaml:"scheduler"`
	Celery struct {
		TaskBroker  string   `yaml:"task_broker"`
		TaskModules []string `yaml:"task_modules"`
	} `yaml:"celery"`
	RabbitMQ struct {
		ManagementURL string `yaml:"management_url"`
	} `yaml:"rabbitmq"`
	Journal struct {
		Brokers         []string `yaml:"brokers"`
		Prefix          string   `yaml:"prefix"`
		GroupID         string   `yaml:"group_id"`
		AutoOffsetReset string   `yaml:"auto_offset_reset"`
	} `yaml:"journal"`
	SchedulingPolicy          map[string][]policy `yaml:"scheduling_policy"`
	NoOriginsScheduledBackoff int                 `yaml:"no_origins_scheduled_backoff"` // seconds
	QueueFullBackoff          int                 `yaml:"queue_full_backoff"`           // seconds
}

type policy struct {
	Policy           string `yaml:"policy"`
	Weight           int    `yaml:"weight"`
	AbsoluteCooldown int    `yaml:"absolute_cooldown,omitempty"` // seconds
}

// newConfiguration fills in the services. Cooldowns are those of production
// but one: origins known to have changed may be visited again at once.
func newConfiguration(r *resources) configuration {
	var c configuration
	c.Scheduler.Class = "postgresql"
	c.Scheduler.DB = r.dsn
	c.Celery.TaskBroker = r.brokerURL
	c.Celery.TaskModules = []string{"swh.demo.tasks"}
	c.RabbitMQ.ManagementURL = r.managementURL
	c.Journal.Brokers = r.kafka
	c.Journal.Prefix = r.topicPrefix
	c.Journal.GroupID = r.name + "-scheduler"
	c.Journal.AutoOffsetReset = "earliest"
	c.SchedulingPolicy = map[string][]policy{"git": {
		{Policy: "never_visited_oldest_update_first", Weight: 50},
		{Policy: "already_visited_order_by_lag", Weight: 25, AbsoluteCooldown: 2},
		{Policy: "origins_without_last_update", Weight: 25},
	}}
	c.NoOriginsScheduledBackoff = 1
	c.QueueFullBackoff = 1
	return c
}

// write stores the configuration, which holds passwords, for its owner only.
func (c configuration) write(path string) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return os.WriteFile(path, data, 0o600)
}
