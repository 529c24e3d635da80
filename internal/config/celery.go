package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/celery"
	"swh-scheduler/internal/yaml11"
)

// Celery configures the connection to the broker, and the form of messages.
type Celery struct {
	TaskBroker Secret // an AMQP URL, or several joined by ; for failover; "" if none is named
	TLS        bool   // use TLS with amqp:// too
	// Connection holds the parameters of all addresses, by the names of celery.ParseBroker. Parameters in a URL take
	// precedence.
	Connection url.Values

	Sending      celery.SendSettings
	DefaultQueue string // of tasks without a route to a queue; "" is Celery's default
	routed       bool   // task_routes is given, and replaces the Python scheduler's own routes
	// Given are the settings of sending, as written in the file.
	Given map[string]any

	refused []error // errors of keys that the daemons can't support
}

// Broker returns the broker, or an error if the file names none. The error lists each setting of the file and the
// environment that would make the Python scheduler send, or connect, in a way that the daemons don't support.
func (c *Config) Broker() (celery.Broker, error) {
	refused := slices.Clone(c.Celery.refused)
	for _, name := range []string{"CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"} {
		if set := os.Getenv(name); set != "" && set != string(c.Celery.TaskBroker) {
			refused = append(refused, fmt.Errorf("the environment variable %s names another broker than celery.task_broker: unset it, and write its value there", name))
		}
	}
	if c.Celery.TaskBroker == "" {
		missing := c.Missing("celery.task_broker", "the broker's URL, such as amqp://swh:PASSWORD@mq.example// (what sends or listens has no default for it)")
		return celery.Broker{}, errors.Join(append(refused, missing)...)
	}
	broker, err := celery.ParseBroker(string(c.Celery.TaskBroker), c.Celery.TLS, c.Celery.Connection)
	if err != nil {
		refused = append(refused, c.wrong("celery.task_broker", "can't be used: "+err.Error()))
	}
	return broker, errors.Join(refused...)
}

// only are settings with a limited set of accepted values. The first value is the Python scheduler's default. The
// text is the alternative for any other value.
var only = map[string]struct {
	values []string
	do     string
}{
	"broker_transport":                        {[]string{"amqp", "pyamqp", "librabbitmq"}, "write amqps:// in task_broker for TLS; no other transport is supported"},
	"broker_failover_strategy":                {[]string{"round-robin"}, "the addresses of task_broker are tried in turn"},
	"broker_host":                             {nil, "write it in task_broker"},
	"broker_port":                             {nil, "write it in task_broker"},
	"broker_user":                             {nil, "write it in task_broker"},
	"broker_password":                         {nil, "write it in task_broker"},
	"broker_vhost":                            {nil, "write it in task_broker"},
	"control_exchange":                        {[]string{"celery"}, "give workers this one, too"},
	"event_exchange":                          {[]string{"celeryev"}, "give workers this one, too"},
	"task_always_eager":                       {[]string{"false"}, "the daemons run no tasks"},
	"task_create_missing_queues":              {[]string{"true"}, "leave it out"},
	"task_create_missing_queue_exchange_type": {[]string{"direct"}, "leave it out"},
	"task_protocol":                           {[]string{"2"}, "leave it out; workers read both"},
	"task_send_sent_event":                    {[]string{"false"}, "leave it out"},
}

// idle are settings without an effect, and the reason.
var idle = map[string]string{
	"broker_url":                  "as for the Python scheduler, which reads task_broker",
	"broker_pool_limit":           "a daemon has one connection to send with",
	"broker_pool_acquire_timeout": "a daemon has one connection to send with",
	"task_publish_retry":          "what is claimed is sent until the broker confirms it",
	"task_publish_retry_policy":   "what is claimed is sent until the broker confirms it",
	"task_default_priority":       "as for the Python scheduler: it is of tasks that are registered with the sender; write a priority in task_routes",
	"task_default_exchange":       ownExchange,
	"task_default_exchange_type":  ownExchange,
	"task_default_routing_key":    ownExchange,
	"task_default_queue_type":     "as for the Python scheduler: task_create_missing_queue_type is of all queues that are not in task_queues",
}

const ownExchange = "as for the Python scheduler: each queue has an exchange of its own name"

// idleOptions are settings of broker_transport_options without an effect, and the reason.
var idleOptions = map[string]string{
	"confirm_publish":   "the broker confirms each message, always",
	"read_timeout":      "heartbeats detect dead connections",
	"write_timeout":     "heartbeats detect dead connections",
	"socket_settings":   "the system's defaults apply",
	"channel_max":       "the broker's limit applies",
	"frame_max":         "a frame has 128 KiB at most",
	"client_properties": "a connection has the name of its daemon",
	"max_retries":       waits,
	"interval_start":    waits,
	"interval_step":     waits,
	"interval_max":      waits,
}

const waits = "the daemons try again for as long as the broker is away"

func (c *Celery) read(v value) {
	var others []value // addresses of brokers
	fields := map[string]func(value){
		"task_broker":                func(v value) { c.TaskBroker = Secret(v.text()) },
		"task_queues":                c.readQueues,
		"task_default_queue":         func(v value) { c.DefaultQueue = v.text() },
		"task_serializer":            c.readSerializer(&c.Sending.Serializer),
		"task_compression":           c.readCompression(&c.Sending.Compression),
		"task_default_delivery_mode": c.readDeliveryMode(&c.Sending.DeliveryMode),
		"task_queue_max_priority":    c.readPriority(1, func(n int64) { c.Sending.MaxPriority = int(n) }),
		"task_create_missing_queue_type": func(v value) {
			if v.oneOf("classic", "quorum") == "quorum" {
				c.Sending.MissingType = "quorum"
			}
		},
		"broker_use_ssl":            c.readTLS,
		"broker_login_method":       c.setting("login_method"),
		"broker_heartbeat":          c.setting("heartbeat"),
		"broker_connection_timeout": c.setting("connect_timeout"),
		"broker_transport_options":  c.readTransportOptions,
	}
	c.Given = map[string]any{}
	for _, name := range sending {
		read := fields[name]
		fields[name] = func(v value) {
			c.give(name, v, read)
		}
	}
	for _, name := range []string{"broker_read_url", "broker_write_url"} {
		fields[name] = func(v value) { others = append(others, v) }
	}
	for name := range only {
		fields[name] = func(v value) { c.readOnly(name, v) }
	}
	v.sectionWith(fields, func(e entry) {
		switch why := idle[e.name]; {
		case e.name == "task_routes": // even null: it replaces the Python scheduler's own routes
			c.give(e.name, e.value, c.readRoutes)
		case e.isNull():
		case why != "":
			e.warn("has no effect: " + why)
		case e.name == strings.ToUpper(e.name) && plainName.MatchString(e.name) && !strings.HasPrefix(e.name, "CELERYD_") && !strings.HasPrefix(e.name, "CELERYBEAT_"):
			c.refuse(e.value, "is an old name, which the Python scheduler still reads: write Celery's present name for it, in lower case")
		default:
			e.unknown(append(keysOf(fields), "task_routes"), othersKeys("celery"))
		}
	})
	for _, v := range others {
		if v.text() != string(c.TaskBroker) {
			c.refuse(v, "names another broker than task_broker: there can be one only")
		}
	}
}

func (c *Celery) readTransportOptions(v value) {
	v.sectionWith(map[string]func(value){
		"login_method": c.setting("login_method"), "heartbeat": c.setting("heartbeat"),
		"connect_timeout": c.setting("connect_timeout"), "ssl": c.readTLS,
	}, func(e entry) {
		switch why := idleOptions[e.name]; {
		case e.name == "confirm_publish" && e.scalar() == true, e.isNull():
		case why != "":
			e.warn("has no effect: " + why)
		default:
			c.refuse(e.value, "is not supported: write a supported parameter in the query of task_broker's URL")
		}
	})
}

// readOnly refuses values of a setting other than those in only.
func (c *Celery) readOnly(name string, v value) {
	o := only[name]
	if v.node.Kind == yaml.ScalarNode && slices.Contains(o.values, v.setting()) {
		return
	}
	wanted := "can't be given"
	if len(o.values) > 0 {
		wanted = "must be " + strings.Join(o.values, " or ")
	}
	c.refuse(v, wanted+": "+o.do)
}

// sending are the settings of sending, except task_routes.
var sending = strings.Fields(`task_queues task_default_queue task_serializer task_compression task_default_delivery_mode
	task_queue_max_priority task_create_missing_queue_type`)

// give reads a setting of sending and records its value in Given, unless the value has an error.
func (c *Celery) give(name string, v value, read func(value)) {
	mistakes := len(v.errors) + len(c.refused)
	if read(v); len(v.errors)+len(c.refused) > mistakes {
		return
	}
	var given any
	if text, err := yaml11.JSON(v.node); err == nil && json.Unmarshal(text, &given) == nil {
		c.Given[name] = given
	}
}

func (c *Celery) refuse(v value, problem string) {
	c.refused = append(c.refused, v.error(problem))
}

func (c *Celery) set(name, value string) {
	if c.Connection == nil {
		c.Connection = url.Values{}
	}
	c.Connection.Set(name, value)
}

// setting returns the reader of a parameter that ParseBroker has by that name.
func (c *Celery) setting(name string) func(value) {
	return func(v value) {
		text := v.setting()
		if _, err := celery.ParseBroker("amqp://h", false, url.Values{name: {text}}); err != nil {
			_, problem, _ := strings.Cut(err.Error(), name+" ")
			c.refuse(v, problem)
			return
		}
		c.set(name, text)
	}
}

// readTLS reads true, or a mapping of TLS options by the names of Python's library.
func (c *Celery) readTLS(v value) {
	if v.node.Kind != yaml.MappingNode {
		c.TLS = v.flag()
		return
	}
	text := func(name string) func(value) {
		return func(v value) { c.set(name, v.text()) }
	}
	v.sectionWith(map[string]func(value){
		"ca_certs": text("cacertfile"), "certfile": text("certfile"), "keyfile": text("keyfile"), "server_hostname": text("server_name_indication"),
		"cert_reqs": func(v value) {
			if n, ok := v.scalar().(*big.Int); ok && n.IsInt64() && n.Int64() >= 0 && n.Int64() <= 2 {
				c.set("ssl_cert_reqs", []string{"none", "optional", "required"}[n.Int64()]) // values of Python's enum
				return
			}
			if text := v.setting(); !slices.Contains([]string{"NONE", "OPTIONAL", "REQUIRED"}, strings.TrimPrefix(strings.ToUpper(text), "CERT_")) {
				c.refuse(v, "must be 0, 1, 2, CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED")
			} else {
				c.set("ssl_cert_reqs", text)
			}
		},
	}, func(e entry) {
		c.refuse(e.value, "can't be given: TLS 1.2 and 1.3 are supported, with Go's ciphers")
	})
	if file := c.Connection.Get("certfile"); file != "" && !c.Connection.Has("keyfile") {
		c.set("keyfile", file) // the file holds both
	}
	c.TLS = len(v.node.Content) > 0
}
