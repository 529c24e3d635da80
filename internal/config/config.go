package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
)

// Config holds the values of the file and the options. The tags are the file's keys: fieldsOf reads by them, and
// config show writes by them the values whose form is the same.
type Config struct {
	File      string    `yaml:"-"` // "" if there is none
	Scheduler Scheduler `yaml:"-"`
	Database  Database  `yaml:"-"`
	Celery    Celery    `yaml:"-"`
	RabbitMQ  RabbitMQ  `yaml:"-"`
	Journal   Journal   `yaml:"journal"`
	RPCServe  RPCServe  `yaml:"rpc_serve"`
	Dashboard Dashboard `yaml:"dashboard,omitempty"`

	// SchedulingPolicy has the policies of each visit type: DefaultSchedulingPolicy, in which the file's entries
	// replace those of the same visit type. "default" is for all other visit types.
	SchedulingPolicy          map[string][]model.WeightedPolicy `yaml:"-"`
	NoOriginsScheduledBackoff time.Duration                     `yaml:"-"` // pause of a visit type's loop that found nothing to schedule
	QueueFullBackoff          time.Duration                     `yaml:"-"` // pause of a visit type's loop whose queue is full
	// LostAfter is the time without events after which a run is given up, by task type. "default" is for all other
	// task types. Without an entry, no run is given up.
	LostAfter map[string]time.Duration `yaml:"lost_after,omitempty"`
	// WantedWorkers configures the number of wanted workers, by task type; see model.WantedOf.
	WantedWorkers map[string]model.WantedWorkers `yaml:"wanted_workers,omitempty"`
	Archive       Archive                        `yaml:"archive,omitempty"`
	// Shares configures how a queue is divided between groups, by task type, or by model.KeyOf for queues with a
	// prefix.
	Shares map[string]model.Shares `yaml:"shares,omitempty"`
	// PriorityAgeing is the wait after which a task counts as one priority higher. A message that has waited for it
	// is not overtaken. 0 turns ageing off.
	PriorityAgeing time.Duration `yaml:"priority_ageing"`
	// Lanes are the lanes of a task type's queue, or by model.KeyOf of its queues with a prefix, such as the queue
	// of tasks with priority. Queues without an entry have no lanes.
	Lanes   map[string][]model.Lane `yaml:"-"`
	Hosters model.Hosters           `yaml:"hosters,omitempty"` // hosters with a limited number of visits
	Hints   Hints                   `yaml:"hints,omitempty"`   // hints that origins have changed
	// GoneOrigins has the rules by which origins are disabled that a full listing lacks. Without a rule for its lister,
	// an origin stays enabled.
	GoneOrigins model.GoneOrigins `yaml:"gone_origins,omitempty"`
	VisitRules  model.VisitRules  `yaml:"visit_rules"` // of the journal client
	// FailuresKeepDate keeps the date of the last visit when one fails, as the design of recurrent visits says. The
	// Python scheduler changes the date.
	FailuresKeepDate bool `yaml:"failures_keep_date,omitempty"`
	// UpdateMetricsAfter is the age of a lister's counts of origins after which update-metrics counts again; 0 is
	// never.
	UpdateMetricsAfter time.Duration `yaml:"update_metrics_after,omitempty"`
	Metrics            Metrics       `yaml:"metrics,omitempty"`
	Sentry             Sentry        `yaml:"sentry,omitempty"`

	lines map[string]int // line of each key in the file
}

const (
	Postgres = "postgresql" // also written local
	Remote   = "remote"
)

// Scheduler is the address of the scheduler's data: a database or an RPC server.
type Scheduler struct {
	Cls          string `yaml:"cls"`            // Postgres, Remote, or "" if not given
	DB           Secret `yaml:"db"`             // a libpq DSN or URI
	URL          Secret `yaml:"url"`            // of the RPC server
	MaxPoolConns int    `yaml:"max_pool_conns"` // most connections to the database; 0 if not given

	SessionKwargs SessionKwargs `yaml:"session_kwargs"` // credentials for the RPC server
}

// Database has further addresses of the database of Scheduler.DB, as libpq DSNs or URIs.
type Database struct {
	Direct  Secret `yaml:"direct"`  // the server itself, if DB is a pooler that shares connections between transactions
	Replica Secret `yaml:"replica"` // a server for commands that only read
}

type RabbitMQ struct {
	ManagementURL Secret        // root of the management API; "" for the broker's host and port + 10000, by HTTPS if the broker has TLS
	StatsAge      time.Duration // greatest age of the management API's figures
}

// MaxStatsAge bounds RabbitMQ.StatsAge. The ledger keeps deliveries for a minute longer (ledger.DeliveriesKept),
// because a claim may wait for its queue's lock.
const MaxStatsAge = 4 * time.Minute

type Journal struct {
	Brokers          []string `yaml:"brokers,omitempty"` // host:port
	GroupID          string   `yaml:"group_id,omitempty"`
	Prefix           string   `yaml:"prefix"`                       // of topics
	Privileged       bool     `yaml:"privileged,omitempty"`         // read topics prefix_privileged.…
	BatchSize        int      `yaml:"batch_size,omitempty"`         // records applied in one transaction; 0: the journal client's default
	CreateTopics     bool     `yaml:"create_topics,omitempty"`      // create the topic if it does not exist
	AutoOffsetReset  string   `yaml:"auto_offset_reset"`            // where a new group starts: earliest or latest
	OnEOF            string   `yaml:"on_eof"`                       // continue, stop or restart at the end of the topic
	StopAfterObjects int      `yaml:"stop_after_objects,omitempty"` // stop after this number of records; 0 is never
	ConsumerSettings Settings `yaml:"consumer_settings,omitempty"`  // KAFKA_GROUP_INSTANCE_ID sets group.instance.id

	// Refused joins the errors of settings that the journal client can't support.
	Refused error `yaml:"-"`
}

// Metrics are our keys of a section that other components have, too.
type Metrics struct {
	Addr       string   `yaml:"addr,omitempty"`        // HOST:PORT of a daemon's metrics and health; "" for none
	Hosts      []string `yaml:"hosts,omitempty"`       // further host names of requests for metrics, health and rpc-serve, besides the machine's names
	Pprof      bool     `yaml:"pprof,omitempty"`       // serve Go's profiles there too, to this host
	PprofToken Secret   `yaml:"pprof_token,omitempty"` // bearer token that lets other hosts read the profiles
}

// Sentry is the destination of error reports. The environment's SWH_SENTRY_… and SWH_MAIN_PACKAGE take precedence.
type Sentry struct {
	DSN                  Secret `yaml:"dsn,omitempty"`
	Environment          string `yaml:"environment,omitempty"`
	MainPackage          string `yaml:"main_package,omitempty"`
	DisableLoggingEvents bool   `yaml:"disable_logging_events,omitempty"`
}

type RPCServe struct {
	// PEM files (see Resolve); both or none.
	TLSCertificate string `yaml:"tls_certificate,omitempty"`
	TLSKey         string `yaml:"tls_key,omitempty"`
	// If there is a token or a username, a client must send the bearer token or the HTTP basic credentials.
	Token    Secret `yaml:"token,omitempty"`
	Username string `yaml:"username,omitempty"`
	Password Secret `yaml:"password,omitempty"`
	// Clients have credentials of their own, which allow the calls of their roles. The credentials above allow all
	// calls.
	Clients  []Client `yaml:"clients,omitempty"`
	ClientCA string   `yaml:"client_ca,omitempty"` // a PEM file (see Resolve) of the authorities of clients' certificates
	Open     bool     `yaml:"open,omitempty"`      // confirms that calls need no credentials
	// MaxBodySize limits a request's body, decompressed, in bytes.
	MaxBodySize int  `yaml:"max_body_size"`
	Door        Door `yaml:"door,omitempty"`
}

// Door is the way to the database for daemons without its address. Without DB, the door is open once the owner of
// the database has opened it.
type Door struct {
	DB             Secret `yaml:"db,omitempty"`              // a libpq DSN or URI of a user with the rights of daemons; "": the role of "migrate --door"
	MaxConnections int    `yaml:"max_connections,omitempty"` // in total; 0 if not given
	MaxPerClient   int    `yaml:"max_per_client,omitempty"`  // for one application_name and user
	MaxPerAddress  int    `yaml:"max_per_address,omitempty"`
}

// Archive configures which tasks are deleted, with their runs, after their end.
type Archive struct {
	// After is the time since a task's end after which it is deleted, by task type. "default" is for all other task
	// types. Without an entry, no task is deleted.
	After     map[string]time.Duration `yaml:"after"`
	Directory string                   `yaml:"directory,omitempty"` // directory to which tasks are written before they are deleted; "" is none
}

// DefaultMaxBodySize is many times the size of the largest batch that clients send.
const DefaultMaxBodySize = 64 << 20

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		RabbitMQ: RabbitMQ{StatsAge: celery.StatsAge},
		Journal: Journal{
			Prefix:          "swh.journal.objects",
			AutoOffsetReset: "earliest", OnEOF: "continue", ConsumerSettings: Settings{},
		},
		RPCServe:                  RPCServe{MaxBodySize: DefaultMaxBodySize},
		SchedulingPolicy:          DefaultSchedulingPolicy(),
		NoOriginsScheduledBackoff: 20 * time.Minute,
		QueueFullBackoff:          time.Minute,
		VisitRules:                model.DefaultVisitRules,
		PriorityAgeing:            time.Hour,
		lines:                     map[string]int{},
	}
}

// Resolve returns the path of a file that the configuration names. A relative path starts at the directory of the
// configuration file.
func (c *Config) Resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.File), path)
}

// UseDatabase replaces all addresses of the database.
func (c *Config) UseDatabase(dsn string) {
	c.Scheduler.Cls, c.Scheduler.DB, c.Database = Postgres, Secret(dsn), Database{}
}

func (c *Config) UseURL(url string) { c.Scheduler.Cls, c.Scheduler.URL = Remote, Secret(url) }

func (c Config) String() string {
	type plain Config // without this method
	c.lines = nil
	return fmt.Sprintf("%+v", plain(c))
}

func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// CheckTaskTypes returns an error that lists the task types and visit types of the configuration that the scheduler
// does not have. Defaults don't count.
func (c *Config) CheckTaskTypes(types []model.TaskType) error {
	var known, problems []string
	for _, tt := range types {
		known = append(known, tt.Type)
	}
	expect := func(section string, names []string, taskTypeOf func(name string) string) {
		for _, name := range names {
			if taskType := taskTypeOf(name); name != "default" && !slices.Contains(known, taskType) {
				problems = append(problems, fmt.Sprintf("%s.%s: there is no task type %s%s", section, name, taskType, didYouMean(taskType, known)))
			}
		}
	}
	same := func(name string) string { return name }
	expect("lost_after", keysOf(c.LostAfter), same)
	expect("wanted_workers", keysOf(c.WantedWorkers), same)
	expect("archive.after", keysOf(c.Archive.After), same)
	for key, rule := range c.GoneOrigins {
		expect("gone_origins."+key, rule.FullTaskTypes, same)
	}
	ofKey := func(key string) string {
		if tt, _, ok := model.TypeOf(key, types); ok {
			return tt.Type
		}
		return key[strings.LastIndexByte(key, ':')+1:]
	}
	expect("shares", keysOf(c.Shares), ofKey)
	expect("lanes", keysOf(c.Lanes), ofKey)
	defaults := DefaultSchedulingPolicy()
	configured := slices.DeleteFunc(keysOf(c.SchedulingPolicy), func(name string) bool { _, ok := defaults[name]; return ok })
	expect("scheduling_policy", configured, model.LoaderTaskType)
	if problems == nil {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}
