// Package statsd sends the Python scheduler's counters to a StatsD server, with its names, types and tags. It sends
// the increments of the counters that Prometheus reads.
package statsd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// names are the Python scheduler's names, by this program's.
var names = map[string]string{
	"swh_scheduler_runner_scheduled_task_total":  "swh_scheduler_runner_scheduled_task_total",
	"swh_scheduler_listener_handled_event_total": "swh_scheduler_listener_handled_event_total",
	"swh_journal_client_handle_message_total":    "swh_journal_client.handle_message_total",
	"swh_journal_client_partition_restart_total": "swh_journal_client.partition_restart_total",
	"swh_journal_client_stop_total":              "swh_journal_client.stop_total",
	"swh_journal_client_status":                  "swh_journal_client.status",
}

const (
	period = 10 * time.Second // how often counters are sent
	// lookupTime bounds the lookup of the server's address. A process that stops waits for it twice at most.
	lookupTime = 2 * time.Second
)

// Sender sends counters.
type Sender struct {
	address  string
	tags     map[string]string // of all counters
	gatherer prometheus.Gatherer
	log      *slog.Logger
	sent     map[string]float64 // last sent value of each counter, by name and tags
}

// FromEnvironment returns the Sender that the environment configures, or nil if none of its variables is set:
// STATSD_HOST (default localhost), STATSD_PORT (default 8125) and STATSD_TAGS. STATSD_TAGS is a list of key:value,
// separated by commas; a value $NAME is replaced by that variable.
func FromEnvironment(gatherer prometheus.Gatherer, log *slog.Logger) (*Sender, error) {
	host, port, tags := os.Getenv("STATSD_HOST"), os.Getenv("STATSD_PORT"), os.Getenv("STATSD_TAGS")
	if host == "" && port == "" && tags == "" {
		return nil, nil
	}
	if _, err := strconv.ParseUint(cmp.Or(port, "8125"), 10, 16); err != nil {
		return nil, fmt.Errorf("STATSD_PORT is %q, not a port", port)
	}
	s := &Sender{
		address: net.JoinHostPort(cmp.Or(host, "localhost"), cmp.Or(port, "8125")), tags: map[string]string{},
		gatherer: gatherer, log: log, sent: map[string]float64{},
	}
	for tag := range strings.SplitSeq(tags, ",") {
		key, value, found := strings.Cut(tag, ":")
		if found {
			s.tags[key] = expand(value)
		} else if tag != "" {
			log.Warn("a tag of STATSD_TAGS is ignored; it must be key:value", "tag", tag)
		}
	}
	return s, nil
}

var variable = regexp.MustCompile(`^\$(?:(\w+)|\{(\w+)\})$`)

// expand returns the value of the variable that a value names, if that is set.
func expand(value string) string {
	if m := variable.FindStringSubmatch(value); m != nil {
		if set, ok := os.LookupEnv(m[1] + m[2]); ok {
			return set
		}
	}
	return value
}

// Run sends every ten seconds, and once more when ctx ends.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.send()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	s.send()
}

// send sends all gauges, and the increments of counters. It repeats what it couldn't send the next time. UDP packets
// that the network drops are lost.
func (s *Sender) send() {
	families, err := s.gatherer.Gather()
	if err != nil {
		s.log.Debug("some counters are not sent to StatsD", "error", err)
	}
	connection, err := (&net.Dialer{Timeout: lookupTime}).Dial("udp4", s.address)
	if err != nil {
		s.log.Debug("StatsD can't be reached", "error", err)
		return
	}
	defer func() { _ = connection.Close() }()
	for _, family := range families {
		name, ok := names[family.GetName()]
		if !ok {
			continue
		}
		for _, m := range family.Metric {
			key, tags := s.tagsOf(m)
			key = name + key
			packet, total := "", m.GetCounter().GetValue()
			if family.GetType() == dto.MetricType_GAUGE {
				packet = name + ":" + number(m.GetGauge().GetValue()) + "|g" + tags
			} else if grown := total - s.sent[key]; grown > 0 {
				packet = name + ":" + number(grown) + "|c" + tags
			}
			if packet == "" {
				continue
			}
			if _, err := connection.Write([]byte(packet)); err != nil {
				s.log.Debug("StatsD can't be reached", "error", err)
				return
			}
			s.sent[key] = total
		}
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// tagsOf returns the tags of a metric, sorted: its labels, and the tags of all metrics that no label overrides. plain
// is unescaped and identifies the metric; tags is escaped for a packet.
func (s *Sender) tagsOf(m *dto.Metric) (plain, tags string) {
	labels := maps.Clone(s.tags)
	for _, label := range m.Label {
		labels[label.GetName()] = label.GetValue()
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		plain += strconv.Quote(key) + strconv.Quote(labels[key])
		all = append(all, escape(key, ":")+":"+escape(labels[key], ""))
	}
	if len(all) == 0 {
		return "", ""
	}
	return plain, "|#" + strings.Join(all, ",")
}

// escape replaces each character that would end a tag or a packet, and those of others, by an underscore, as StatsD's
// protocol has no escapes.
func escape(text, others string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '|' || r == ',' || r == '#' || strings.ContainsRune(others, r) {
			return '_'
		}
		return r
	}, text)
}
