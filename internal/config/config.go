package config

import (
	"fmt"
	"log/slog"
	"time"

	"swh-scheduler/internal/scheduler"
)

// Config is a configuration file, with defaults where it says nothing.
type Config struct {
	File      string // "" if there is none
	Scheduler Scheduler
	Celery    Celery
	RabbitMQ  RabbitMQ
	Journal   Journal
	RPCServe  RPCServe

	// SchedulingPolicy says by which policies the origins of a visit type are
	// picked: DefaultSchedulingPolicy, with the file's entries in place of those
	// of the same visit type. "default" is for visit types that have none.
	SchedulingPolicy map[string][]scheduler.WeightedPolicy
	// NoOriginsScheduledBackoff is the wait of a visit type's loop that found
	// nothing to schedule.
	NoOriginsScheduledBackoff time.Duration
	// QueueFullBackoff is the wait of one whose queue is full.
	QueueFullBackoff time.Duration
	// LostAfter is how long a run of a task may be silent before it is given up,
	// by task type; that of "default" is for the others. None is given up unless
	// it is there.
	LostAfter map[string]time.Duration
	// Shares says, by task type, how the work of its queue is divided between
	// groups. Other queues are not shared.
	Shares map[string]scheduler.Shares
	// Lanes are the ways of a task type's work to workers, by task type, and by
	// scheduler.PriorityLanes for tasks with priority. Other types have one queue.
	Lanes map[string][]scheduler.Lane

	// FailuresKeepDate has a failed visit leave the date of the last one alone, as
	// the design of recurrent visits says; the peer takes it as a visit.
	FailuresKeepDate bool

	// MetricsAddr is where a daemon serves its metrics and health, HOST:PORT; ""
	// where it does not.
	MetricsAddr string

	lines map[string]int // of the keys that the file has
}

// The classes of scheduler.
const (
	Postgres = "postgresql" // also written local
	Remote   = "remote"
)

// Scheduler says where the scheduler's data is: in a database, or behind an RPC
// server.
type Scheduler struct {
	Cls          string // Postgres, Remote, or "" where nothing says
	DB           Secret // a libpq DSN or URI
	URL          Secret // of the RPC server
	MaxPoolConns int    // connections at a time to the database; 0 where the file names none
}

// Celery says where tasks are sent.
type Celery struct {
	// TaskBroker is one AMQP URL, or several joined by ; for failover.
	TaskBroker Secret
}

// DefaultTaskBroker is the peer's.
const DefaultTaskBroker = "amqp://guest@localhost//"

// RabbitMQ holds what the peer guesses from the broker's URL.
type RabbitMQ struct {
	// ManagementURL is the root of the management API; "" means that it is
	// guessed from the broker's URL: http on its port + 10000.
	ManagementURL Secret
}

// Journal says how visit outcomes are read from Kafka.
type Journal struct {
	Brokers          []string // host:port
	GroupID          string
	Prefix           string // of topics
	Privileged       bool   // read topics prefix_privileged.…
	BatchSize        int    // records applied at a time
	AutoOffsetReset  string // where a new group starts: earliest or latest
	OnEOF            string // continue, stop or restart at the end of the topic
	StopAfterObjects int    // stop after so many records; 0 is never
	// ConsumerSettings are by librdkafka's names. group.instance.id comes from
	// KAFKA_GROUP_INSTANCE_ID if that is set.
	ConsumerSettings Settings
}

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		Celery: Celery{TaskBroker: DefaultTaskBroker},
		Journal: Journal{
			Prefix: "swh.journal.objects", BatchSize: 200,
			AutoOffsetReset: "earliest", OnEOF: "continue", ConsumerSettings: Settings{},
		},
		RPCServe:                  RPCServe{MaxBodySize: DefaultMaxBodySize},
		SchedulingPolicy:          DefaultSchedulingPolicy(),
		NoOriginsScheduledBackoff: 20 * time.Minute,
		QueueFullBackoff:          time.Minute,
		lines:                     map[string]int{},
	}
}

// UseDatabase replaces the scheduler by the database at dsn (option --database).
func (c *Config) UseDatabase(dsn string) { c.Scheduler.Cls, c.Scheduler.DB = Postgres, Secret(dsn) }

// UseURL replaces the scheduler by the RPC server at url (option --url).
func (c *Config) UseURL(url string) { c.Scheduler.Cls, c.Scheduler.URL = Remote, Secret(url) }

// String is the configuration without secrets.
func (c Config) String() string {
	type plain Config // without this method
	c.lines = nil
	return fmt.Sprintf("%+v", plain(c))
}

// LogValue hides secrets from slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Missing is the error that a key the command needs is not there. It points to
// the key's section if the file has that.
func (c *Config) Missing(key, expected string) error {
	e := &Error{File: c.File, Key: key, Problem: "is missing: expected " + expected}
	for section := key; section != ""; section = parent(section) {
		if line := c.lines[section]; line > 0 {
			e.Line = line
			break
		}
	}
	return e
}
