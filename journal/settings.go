package journal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connection is what librdkafka's settings say of how to consume.
type connection struct {
	opts       []kgo.Opt
	instanceID string
	session    time.Duration // 0: not set
	maxPoll    time.Duration // 0: not set

	security securitySettings
}

// A setting is what becomes of one of librdkafka's settings.
type setting struct {
	treatment treatment
	apply     func(c *connection, value string) error // of a translated one
	why       string                                  // of a warning or an error
}

type treatment int

const (
	translated treatment = iota // has its own meaning here
	harmless                    // changes neither security nor what is delivered, or is set by the peer itself whatever a file says
	warned                      // is not honoured, which may be noticed
	refused                     // would change security or delivery and is not honoured
)

// Librdkafka's defaults for a consumer, which the peer inherits.
const (
	defaultSession   = 45 * time.Second
	defaultHeartbeat = 3 * time.Second
	defaultMaxPoll   = 5 * time.Minute
	// staticSession is the peer's default for a static member: long enough to be
	// restarted in, before the group shares out its partitions.
	staticSession = 10 * time.Minute
)

// translate turns consumer_settings, named as librdkafka names them, into
// options of the consumer. Settings that are not honoured are an error if they
// would change security or delivery, else a warning. Neither holds a value, for
// a value may be a password.
func translate(settings map[string]string) (opts []kgo.Opt, warnings []string, err error) {
	var c connection
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := lookUp(name)
		switch s.treatment {
		case translated:
			if err := s.apply(&c, settings[name]); err != nil {
				return nil, nil, fmt.Errorf("consumer setting %q: %w", name, err)
			}
		case warned:
			warnings = append(warnings, fmt.Sprintf("consumer setting %q is not honoured: %s", name, s.why))
		case refused:
			if s.apply != nil {
				if err := s.apply(&c, settings[name]); err == nil {
					continue
				}
			}
			return nil, nil, fmt.Errorf("consumer setting %q cannot be honoured: %s; remove it or use the Python client", name, s.why)
		}
	}
	security, more, err := c.security.options()
	if err != nil {
		return nil, nil, err
	}
	opts = append(c.opts, c.timeouts()...)
	return append(opts, security...), append(warnings, more...), nil
}

// timeouts follows the peer: a static member has a long session, and a session
// that is set makes the longest time between polls half as long again.
func (c *connection) timeouts() []kgo.Opt {
	var opts []kgo.Opt
	if c.instanceID != "" {
		opts = append(opts, kgo.InstanceID(c.instanceID))
		if c.session == 0 {
			c.session = staticSession
		}
	}
	if c.session != 0 && c.maxPoll == 0 {
		c.maxPoll = c.session / 2 * 3
	}
	if c.session == 0 {
		c.session = defaultSession
	}
	if c.maxPoll == 0 {
		c.maxPoll = defaultMaxPoll
	}
	// The broker gives a member that long to join a rebalance, in librdkafka too.
	return append(opts, kgo.SessionTimeout(c.session), kgo.RebalanceTimeout(c.maxPoll))
}

// lookUp finds a setting by its name, or by what its name begins with.
func lookUp(name string) setting {
	if s, ok := settingTable[name]; ok {
		return s
	}
	for _, family := range settingFamilies {
		if strings.HasPrefix(name, family.prefix) {
			return family.setting
		}
	}
	return setting{treatment: warned, why: "it is not known here"}
}

func option[T any](parse func(string) (T, error), opt func(T) kgo.Opt) setting {
	return setting{apply: func(c *connection, value string) error {
		v, err := parse(value)
		if err == nil {
			c.opts = append(c.opts, opt(v))
		}
		return err
	}}
}

func field[T any](parse func(string) (T, error), of func(*connection) *T) setting {
	return setting{apply: func(c *connection, value string) error {
		v, err := parse(value)
		*of(c) = v
		return err
	}}
}

// only refuses a setting unless it has the one value that is as things are here.
func only(value, why string) setting {
	return setting{treatment: refused, why: why, apply: func(_ *connection, got string) error {
		if !strings.EqualFold(got, value) {
			return fmt.Errorf("only %q is possible", value)
		}
		return nil
	}}
}

var ignored = setting{treatment: harmless}

var settingTable = map[string]setting{
	"security.protocol":                     field(verbatim, func(c *connection) *string { return &c.security.protocol }),
	"sasl.mechanism":                        field(verbatim, func(c *connection) *string { return &c.security.mechanism }),
	"sasl.mechanisms":                       field(verbatim, func(c *connection) *string { return &c.security.mechanism }),
	"sasl.username":                         field(verbatim, func(c *connection) *string { return &c.security.username }),
	"sasl.password":                         field(verbatim, func(c *connection) *string { return &c.security.password }),
	"ssl.ca.location":                       field(verbatim, func(c *connection) *string { return &c.security.caLocation }),
	"ssl.ca.pem":                            field(verbatim, func(c *connection) *string { return &c.security.caPEM }),
	"ssl.certificate.location":              field(verbatim, func(c *connection) *string { return &c.security.certLocation }),
	"ssl.certificate.pem":                   field(verbatim, func(c *connection) *string { return &c.security.certPEM }),
	"ssl.key.location":                      field(verbatim, func(c *connection) *string { return &c.security.keyLocation }),
	"ssl.key.pem":                           field(verbatim, func(c *connection) *string { return &c.security.keyPEM }),
	"ssl.key.password":                      field(verbatim, func(c *connection) *string { return &c.security.keyPassword }),
	"ssl.endpoint.identification.algorithm": field(verbatim, func(c *connection) *string { return &c.security.identification }),
	"enable.ssl.certificate.verification":   field(boolean, func(c *connection) **bool { return &c.security.verify }),

	"group.instance.id":    field(verbatim, func(c *connection) *string { return &c.instanceID }),
	"session.timeout.ms":   field(milliseconds, func(c *connection) *time.Duration { return &c.session }),
	"max.poll.interval.ms": field(milliseconds, func(c *connection) *time.Duration { return &c.maxPoll }),
	"heartbeat.interval.ms": option(milliseconds, func(d time.Duration) kgo.Opt {
		return kgo.HeartbeatInterval(d)
	}),
	"client.id":                          option(verbatim, kgo.ClientID),
	"client.rack":                        option(verbatim, func(s string) kgo.Opt { return kgo.Rack(s) }),
	"partition.assignment.strategy":      option(balancers, func(b []kgo.GroupBalancer) kgo.Opt { return kgo.Balancers(b...) }),
	"isolation.level":                    option(isolation, func(l kgo.IsolationLevel) kgo.Opt { return kgo.FetchIsolationLevel(l) }),
	"fetch.min.bytes":                    option(size, func(n int32) kgo.Opt { return kgo.FetchMinBytes(n) }),
	"fetch.max.bytes":                    option(size, func(n int32) kgo.Opt { return kgo.FetchMaxBytes(n) }),
	"fetch.message.max.bytes":            option(size, func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) }),
	"max.partition.fetch.bytes":          option(size, func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) }),
	"fetch.wait.max.ms":                  option(milliseconds, func(d time.Duration) kgo.Opt { return kgo.FetchMaxWait(d) }),
	"receive.message.max.bytes":          option(size, kgo.BrokerMaxReadBytes),
	"socket.connection.setup.timeout.ms": option(milliseconds, kgo.DialTimeout),

	// Set by the peer itself, over what a file says.
	"auto.offset.reset":    ignored,
	"enable.auto.commit":   ignored,
	"enable.partition.eof": ignored,
	"group.id":             ignored,
	"bootstrap.servers":    ignored,
	"on_commit":            ignored,
	"error_cb":             ignored,
	"logger":               ignored,

	"enable.auto.offset.store": only("true", "offsets are committed after each batch, always"),
	"group.protocol": {treatment: warned,
		why: "the classic group protocol is used"},
	"group.remote.assignor": {treatment: warned,
		why: "the classic group protocol is used"},
	"metadata.broker.list": {treatment: warned,
		why: "the brokers are those of the key journal.brokers"},
	"broker.address.family": {treatment: warned,
		why: "addresses of both families are tried"},
	"allow.auto.create.topics": {treatment: warned,
		why: "topics are never created"},
	"plugin.library.paths": {treatment: warned,
		why: "there are no plugins"},

	"check.crcs":                    ignored, // always checked
	"auto.commit.interval.ms":       ignored,
	"auto.commit.enable":            ignored,
	"offset.store.method":           ignored,
	"offset.store.path":             ignored,
	"offset.store.sync.interval.ms": ignored,
	"queued.min.messages":           ignored,
	"queued.max.messages.kbytes":    ignored,
	"fetch.error.backoff.ms":        ignored,
	"fetch.queue.backoff.ms":        ignored,
	"consume.callback.max.messages": ignored,
	"message.max.bytes":             ignored,
	"message.copy.max.bytes":        ignored,
	"coordinator.query.interval.ms": ignored,
	"connections.max.idle.ms":       ignored,
	"statistics.interval.ms":        ignored,
	"stats_cb":                      ignored,
	"throttle_cb":                   ignored,
	"debug":                         ignored,
	"log_level":                     ignored,
	"client.dns.lookup":             ignored,
	"enable.metrics.push":           ignored,
	"enable.random.seed":            ignored,
	"internal.termination.signal":   ignored,
	"broker.address.ttl":            ignored,
	"broker.version.fallback":       ignored,
}

// settingFamilies are settings told by how their names begin. The first that
// fits counts.
var settingFamilies = []struct {
	prefix string
	setting
}{
	// Of mechanisms that are refused by the name of the mechanism.
	{"sasl.kerberos.", ignored},
	{"sasl.oauthbearer.", ignored},
	{"sasl.", setting{treatment: refused, why: "it would change how the client is authenticated"}},
	{"ssl.", setting{treatment: refused, why: "it would change how the connection is secured"}},
	{"ssl_", setting{treatment: refused, why: "it would change how the connection is secured"}},
	{"enable.ssl.", setting{treatment: refused, why: "it would change how the connection is secured"}},
	{"https.", setting{treatment: refused, why: "it would change how the connection is secured"}},
	{"enable.sasl.", ignored},
	{"isolation.", setting{treatment: refused, why: "it would change which records are delivered"}},
	{"socket.", ignored},
	{"reconnect.", ignored},
	{"retry.", ignored},
	{"retries", ignored},
	{"log.", ignored},
	{"metadata.", ignored},
	{"topic.metadata.", ignored},
	{"api.version.", ignored},
	{"max.in.flight", ignored},
}

func verbatim(s string) (string, error) { return s, nil }

func boolean(s string) (*bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "1":
		v := true
		return &v, nil
	case "false", "f", "0":
		v := false
		return &v, nil
	}
	return nil, fmt.Errorf("expected true or false")
}

func milliseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("expected a number of milliseconds")
	}
	return time.Duration(n) * time.Millisecond, nil
}

func size(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("expected a number of bytes")
	}
	return int32(n), nil
}

func isolation(s string) (kgo.IsolationLevel, error) {
	switch s {
	case "read_committed":
		return kgo.ReadCommitted(), nil
	case "read_uncommitted":
		return kgo.ReadUncommitted(), nil
	}
	return kgo.IsolationLevel{}, fmt.Errorf("expected read_committed or read_uncommitted")
}

// balancers reads the names of strategies that take all partitions back before
// they share them out again: the loop counts on that when it gives up a batch.
func balancers(s string) ([]kgo.GroupBalancer, error) {
	var all []kgo.GroupBalancer
	for name := range strings.SplitSeq(s, ",") {
		switch strings.TrimSpace(name) {
		case "range":
			all = append(all, kgo.RangeBalancer())
		case "roundrobin":
			all = append(all, kgo.RoundRobinBalancer())
		default:
			return nil, fmt.Errorf("expected range, roundrobin or both")
		}
	}
	return all, nil
}
