package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connection is the result of translating librdkafka's settings.
type connection struct {
	opts       []kgo.Opt
	instanceID string
	session    time.Duration // 0: not set
	maxPoll    time.Duration // 0: not set
	heartbeat  time.Duration // 0: not set
	maxFetch   int32         // bytes; 0: not set
	maxReceive int32         // bytes; 0: not set

	security securitySettings
}

// A setting is the treatment of one of librdkafka's settings. The zero value ignores it: it affects neither
// security nor delivery, or the Python scheduler overrides it.
type setting struct {
	apply  func(c *connection, value string) error
	warn   string // the reason why it has no effect, if users may notice
	refuse string // the reason why it is an error: it would change security or delivery; values that apply accepts are no error
}

// These are librdkafka's defaults for a consumer, which the Python scheduler inherits.
const (
	defaultSession   = 45 * time.Second
	defaultHeartbeat = 3 * time.Second
	defaultMaxPoll   = 5 * time.Minute
	// staticSession is the Python scheduler's default for a static member. It leaves time for a restart
	// before the group reassigns the partitions.
	staticSession = 10 * time.Minute

	defaultMaxReceive = 100_000_000
)

// A SettingError reports an unusable consumer setting. It contains no value, which may be a password.
type SettingError struct {
	Setting string // librdkafka's name
	Problem string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("consumer setting %q: %s", e.Setting, e.Problem)
}

func wrong(setting, format string, args ...any) error {
	return &SettingError{setting, fmt.Sprintf(format, args...)}
}

// CheckSettings returns the error that New would return for consumer settings: a *SettingError or an error
// of the Kafka library.
func CheckSettings(settings map[string]string) error {
	opts, _, err := translate(settings)
	if err == nil {
		err = kgo.ValidateOpts(append(opts, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("topic"))...)
	}
	return err
}

// otherNames are the aliases of settings.
var otherNames = map[string]string{"sasl.mechanisms": "sasl.mechanism", "max.partition.fetch.bytes": "fetch.message.max.bytes"}

// translate turns consumer_settings, named as in librdkafka, into options of the consumer. A setting
// without effect is an error if it would change security or delivery, else a warning. Neither contains a
// value, which may be a password.
func translate(settings map[string]string) (opts []kgo.Opt, warnings []string, err error) {
	var c connection
	for second, name := range otherNames {
		if settings[second] != "" && settings[name] != "" && settings[second] != settings[name] {
			return nil, nil, wrong(second, "it contradicts %q, which is another name for it; remove one of them", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] == "" && settings[otherNames[name]] != "" {
			continue
		}
		switch s := settingOf(name); {
		case s.refuse != "":
			if s.apply == nil || s.apply(&c, settings[name]) != nil {
				return nil, nil, wrong(name, "it cannot be honoured: %s; remove it or use the Python client", s.refuse)
			}
		case s.warn != "":
			warnings = append(warnings, fmt.Sprintf("consumer setting %q is not honoured: %s", name, s.warn))
		case s.apply != nil:
			if err := s.apply(&c, settings[name]); err != nil {
				return nil, nil, wrong(name, "%s", err)
			}
		}
	}
	security, more, err := c.security.options()
	if err != nil {
		return nil, nil, err
	}
	opts = append(c.opts, c.timeouts()...)
	if err := c.contradiction(); err != nil {
		return nil, nil, err
	}
	return append(opts, security...), append(warnings, more...), nil
}

// contradiction returns the error for settings that contradict each other.
func (c *connection) contradiction() error {
	maxReceive := cmp.Or(c.maxReceive, defaultMaxReceive)
	switch maxFetch := cmp.Or(c.maxFetch, maxFetchBytes); {
	case c.maxPoll < c.session:
		return wrong("max.poll.interval.ms", "it must be at least session.timeout.ms")
	case c.heartbeat > c.session:
		return wrong("heartbeat.interval.ms", "it must be at most session.timeout.ms (%d if it is not given)", defaultSession.Milliseconds())
	case maxReceive >= maxFetch+512:
		return nil
	case c.maxReceive != 0:
		return wrong("receive.message.max.bytes", "it must be 512 more than fetch.max.bytes (%d if it is not given)", maxFetchBytes)
	default:
		return wrong("fetch.max.bytes", "it must be 512 less than receive.message.max.bytes (%d if it is not given)", defaultMaxReceive)
	}
}

// timeouts returns the options that depend on several settings. As in the Python scheduler, a static member
// has a long session, and a configured session sets the longest time between polls to one and a half times
// the session.
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
	if c.heartbeat != 0 {
		opts = append(opts, kgo.HeartbeatInterval(c.heartbeat))
	}
	if c.maxFetch != 0 {
		opts = append(opts, kgo.FetchMaxBytes(c.maxFetch))
	}
	if c.maxReceive != 0 {
		opts = append(opts, kgo.BrokerMaxReadBytes(c.maxReceive))
	}
	// The broker gives a member maxPoll to join a rebalance, in librdkafka too.
	return append(opts, kgo.SessionTimeout(c.session), kgo.RebalanceTimeout(c.maxPoll))
}

// settingOf finds a setting by its name or by its name's prefix.
func settingOf(name string) setting {
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

// only refuses a setting unless it has the one value that this client implements.
func only(value, why string) setting {
	return setting{refuse: why, apply: func(_ *connection, got string) error {
		if !strings.EqualFold(got, value) {
			return fmt.Errorf("only %q is possible", value)
		}
		return nil
	}}
}

var settingTable = map[string]setting{
	"security.protocol":                     field(oneOf("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), func(c *connection) *string { return &c.security.protocol }),
	"sasl.mechanism":                        field(trimmed, func(c *connection) *string { return &c.security.mechanism }),
	"sasl.mechanisms":                       field(trimmed, func(c *connection) *string { return &c.security.mechanism }),
	"sasl.username":                         field(verbatim, func(c *connection) *string { return &c.security.username }),
	"sasl.password":                         field(verbatim, func(c *connection) *string { return &c.security.password }),
	"ssl.ca.location":                       field(verbatim, func(c *connection) *string { return &c.security.caLocation }),
	"ssl.ca.pem":                            field(verbatim, func(c *connection) *string { return &c.security.caPEM }),
	"ssl.certificate.location":              field(verbatim, func(c *connection) *string { return &c.security.certLocation }),
	"ssl.certificate.pem":                   field(verbatim, func(c *connection) *string { return &c.security.certPEM }),
	"ssl.key.location":                      field(verbatim, func(c *connection) *string { return &c.security.keyLocation }),
	"ssl.key.pem":                           field(verbatim, func(c *connection) *string { return &c.security.keyPEM }),
	"ssl.key.password":                      field(verbatim, func(c *connection) *string { return &c.security.keyPassword }),
	"ssl.endpoint.identification.algorithm": field(oneOf("https", "none"), func(c *connection) *string { return &c.security.identification }),
	"enable.ssl.certificate.verification":   field(boolean, func(c *connection) **bool { return &c.security.verify }),

	"group.instance.id":                  field(verbatim, func(c *connection) *string { return &c.instanceID }),
	"session.timeout.ms":                 field(milliseconds(1, hourMilliseconds), func(c *connection) *time.Duration { return &c.session }),
	"max.poll.interval.ms":               field(milliseconds(1, 24*hourMilliseconds), func(c *connection) *time.Duration { return &c.maxPoll }),
	"heartbeat.interval.ms":              field(milliseconds(1, hourMilliseconds), func(c *connection) *time.Duration { return &c.heartbeat }),
	"client.id":                          option(atMost(256), kgo.ClientID),
	"client.rack":                        option(atMost(512), func(s string) kgo.Opt { return kgo.Rack(s) }),
	"partition.assignment.strategy":      option(balancers, func(b []kgo.GroupBalancer) kgo.Opt { return kgo.Balancers(b...) }),
	"isolation.level":                    option(isolation, func(l kgo.IsolationLevel) kgo.Opt { return kgo.FetchIsolationLevel(l) }),
	"fetch.min.bytes":                    option(size(1, 100_000_000), func(n int32) kgo.Opt { return kgo.FetchMinBytes(n) }),
	"fetch.max.bytes":                    field(size(1, maxReceivable-512), func(c *connection) *int32 { return &c.maxFetch }),
	"fetch.message.max.bytes":            option(size(1, 1_000_000_000), func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) }),
	"max.partition.fetch.bytes":          option(size(1, 1_000_000_000), func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) }),
	"fetch.wait.max.ms":                  option(milliseconds(0, 300_000), func(d time.Duration) kgo.Opt { return kgo.FetchMaxWait(d) }),
	"receive.message.max.bytes":          field(size(1024, maxReceivable), func(c *connection) *int32 { return &c.maxReceive }),
	"socket.connection.setup.timeout.ms": option(milliseconds(1000, math.MaxInt32), kgo.DialTimeout),

	"enable.auto.offset.store": only("true", "offsets are committed after each batch, always"),
	"group.protocol":           {warn: "the classic group protocol is used"},
	"group.remote.assignor":    {warn: "the classic group protocol is used"},
	"metadata.broker.list":     {warn: "the brokers are those of the key journal.brokers"},
	"broker.address.family":    {warn: "addresses of both families are tried"},
	"allow.auto.create.topics": {warn: "topics are never created"},
	"plugin.library.paths":     {warn: "there are no plugins"},
}

// The Python scheduler itself sets the settings of the first line; check.crcs is always on.
var ignoredSettings = strings.Fields(`
	auto.offset.reset enable.auto.commit enable.partition.eof group.id bootstrap.servers on_commit error_cb logger
	check.crcs auto.commit.interval.ms auto.commit.enable offset.store.method offset.store.path offset.store.sync.interval.ms
	queued.min.messages queued.max.messages.kbytes fetch.error.backoff.ms fetch.queue.backoff.ms
	consume.callback.max.messages message.max.bytes message.copy.max.bytes coordinator.query.interval.ms
	connections.max.idle.ms statistics.interval.ms stats_cb throttle_cb debug log_level client.dns.lookup
	enable.metrics.push enable.random.seed internal.termination.signal broker.address.ttl broker.version.fallback`)

// settingFamilies are settings by prefix; the first match counts. Unsupported SASL mechanisms are refused
// by their prefixes.
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

func trimmed(s string) (string, error) { return strings.TrimSpace(s), nil }

func boolean(s string) (*bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "t", "1":
		return new(true), nil
	case "false", "f", "0":
		return new(false), nil
	}
	return nil, errors.New("expected true or false")
}

// These are the largest values that librdkafka or the Kafka library accept.
const (
	hourMilliseconds = 3_600_000
	maxReceivable    = 1 << 30
)

// milliseconds parses a duration within librdkafka's bounds.
func milliseconds(least, most int64) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("expected a number of milliseconds between %d and %d", least, most)
		}
		return time.Duration(n) * time.Millisecond, nil
	}
}

func size(least, most int64) func(string) (int32, error) {
	return func(s string) (int32, error) {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("expected a number of bytes between %d and %d", least, most)
		}
		return int32(n), nil
	}
}

// oneOf parses one of the words in any case, as librdkafka does.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		word := strings.ToLower(strings.TrimSpace(s))
		if !slices.Contains(words, word) {
			return "", fmt.Errorf("expected %s or %s", strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
		}
		return word, nil
	}
}

func atMost(bytes int) func(string) (string, error) {
	return func(s string) (string, error) {
		if len(s) > bytes {
			return "", fmt.Errorf("expected at most %d bytes", bytes)
		}
		return s, nil
	}
}

func isolation(s string) (kgo.IsolationLevel, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "read_committed":
		return kgo.ReadCommitted(), nil
	case "read_uncommitted":
		return kgo.ReadUncommitted(), nil
	}
	return kgo.IsolationLevel{}, errors.New("expected read_committed or read_uncommitted")
}

// balancers parses the names of strategies that revoke all partitions before they reassign them. The loop
// relies on that when it gives up a batch.
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
