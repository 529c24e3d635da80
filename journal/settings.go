package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// A setting says how one of librdkafka's settings is treated. The zero setting is
// ignored: it changes neither security nor what is delivered, or the Python scheduler sets it
// itself whatever a file says.
type setting struct {
	apply  func(c *connection, value string) error
	warn   string // why it is not honoured, which may be noticed
	refuse string // why it is an error, as it would change security or delivery; values that apply takes are not
}

// Librdkafka's defaults for a consumer, which the Python scheduler inherits.
const (
	defaultSession   = 45 * time.Second
	defaultHeartbeat = 3 * time.Second
	defaultMaxPoll   = 5 * time.Minute
	// staticSession is the Python scheduler's default for a static member: long enough to be
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
		switch s := lookUp(name); {
		case s.refuse != "":
			if s.apply == nil || s.apply(&c, settings[name]) != nil {
				return nil, nil, fmt.Errorf("consumer setting %q cannot be honoured: %s; remove it or use the Python client", name, s.refuse)
			}
		case s.warn != "":
			warnings = append(warnings, fmt.Sprintf("consumer setting %q is not honoured: %s", name, s.warn))
		case s.apply != nil:
			if err := s.apply(&c, settings[name]); err != nil {
				return nil, nil, fmt.Errorf("consumer setting %q: %w", name, err)
			}
		}
	}
	security, more, err := c.security.options()
	if err != nil {
		return nil, nil, err
	}
	opts = append(c.opts, c.timeouts()...)
	return append(opts, security...), append(warnings, more...), nil
}

// timeouts follows the Python scheduler: a static member has a long session, and a session
// that is set makes the longest time between polls half as long again.
func (c *connection) timeouts() []kgo.Opt {
	var opts []kgo.Opt
	if c.instanceID != "" {
		opts = append(opts, kgo.InstanceID(c.instanceID))
		c.session = cmp.Or(c.session, staticSession)
	}
	if c.session != 0 && c.maxPoll == 0 {
		c.maxPoll = c.session / 2 * 3
	}
	c.session = cmp.Or(c.session, defaultSession)
	c.maxPoll = cmp.Or(c.maxPoll, defaultMaxPoll)
	// The broker gives a member that long to join a rebalance, in librdkafka too.
	return append(opts, kgo.SessionTimeout(c.session), kgo.RebalanceTimeout(c.maxPoll))
}

// lookUp finds a setting by its name, or by what its name begins with.
func lookUp(name string) setting {
	if s, ok := settingTable[name]; ok {
		return s
	}
	if slices.Contains(ignoredSettings, name) {
		return setting{}
	}
	for _, family := range settingFamilies {
		for prefix := range strings.FieldsSeq(family.prefixes) {
			if strings.HasPrefix(name, prefix) {
				return family.setting
			}
		}
	}
	return setting{warn: "it is not known here"}
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
	return setting{refuse: why, apply: func(_ *connection, got string) error {
		if !strings.EqualFold(got, value) {
			return fmt.Errorf("only %q is possible", value)
		}
		return nil
	}}
}

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

	"group.instance.id":                  field(verbatim, func(c *connection) *string { return &c.instanceID }),
	"session.timeout.ms":                 field(someMilliseconds, func(c *connection) *time.Duration { return &c.session }),
	"max.poll.interval.ms":               field(someMilliseconds, func(c *connection) *time.Duration { return &c.maxPoll }),
	"heartbeat.interval.ms":              option(someMilliseconds, func(d time.Duration) kgo.Opt { return kgo.HeartbeatInterval(d) }),
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
	"socket.connection.setup.timeout.ms": option(someMilliseconds, kgo.DialTimeout),

	"enable.auto.offset.store": only("true", "offsets are committed after each batch, always"),
	"group.protocol":           {warn: "the classic group protocol is used"},
	"group.remote.assignor":    {warn: "the classic group protocol is used"},
	"metadata.broker.list":     {warn: "the brokers are those of the key journal.brokers"},
	"broker.address.family":    {warn: "addresses of both families are tried"},
	"allow.auto.create.topics": {warn: "topics are never created"},
	"plugin.library.paths":     {warn: "there are no plugins"},
}

// The Python scheduler itself sets those of the first line; check.crcs is always on.
var ignoredSettings = strings.Fields(`
	auto.offset.reset enable.auto.commit enable.partition.eof group.id bootstrap.servers on_commit error_cb logger
	check.crcs auto.commit.interval.ms auto.commit.enable offset.store.method offset.store.path offset.store.sync.interval.ms
	queued.min.messages queued.max.messages.kbytes fetch.error.backoff.ms fetch.queue.backoff.ms
	consume.callback.max.messages message.max.bytes message.copy.max.bytes coordinator.query.interval.ms
	connections.max.idle.ms statistics.interval.ms stats_cb throttle_cb debug log_level client.dns.lookup
	enable.metrics.push enable.random.seed internal.termination.signal broker.address.ttl broker.version.fallback`)

// settingFamilies are settings told by how their names begin. The first that
// matches counts. Of the SASL mechanisms, those that are not supported are refused
// by their names.
var settingFamilies = []struct {
	prefixes string
	setting
}{
	{"sasl.kerberos. sasl.oauthbearer. enable.sasl. socket. reconnect. retry. retries log. metadata. " +
		"topic.metadata. api.version. max.in.flight", setting{}},
	{"sasl.", setting{refuse: "it would change how the client is authenticated"}},
	{"ssl. ssl_ enable.ssl. https.", setting{refuse: "it would change how the connection is secured"}},
	{"isolation.", setting{refuse: "it would change which records are delivered"}},
}

func verbatim(s string) (string, error) { return s, nil }

func boolean(s string) (*bool, error) {
	switch strings.ToLower(s) {
	case "true", "t", "1":
		return new(true), nil
	case "false", "f", "0":
		return new(false), nil
	}
	return nil, errors.New("expected true or false")
}

func milliseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, errors.New("expected a number of milliseconds")
	}
	return time.Duration(n) * time.Millisecond, nil
}

// someMilliseconds takes no 0, as librdkafka doesn't: without time between heartbeats a client
// would send them one after another.
func someMilliseconds(s string) (time.Duration, error) {
	d, err := milliseconds(s)
	if err == nil && d == 0 {
		err = errors.New("expected a number of milliseconds above 0")
	}
	return d, err
}

func size(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, errors.New("expected a number of bytes")
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
	return kgo.IsolationLevel{}, errors.New("expected read_committed or read_uncommitted")
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
			return nil, errors.New("expected range, roundrobin or both")
		}
	}
	return all, nil
}
