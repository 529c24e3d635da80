package settings

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
)

// exposed returns warnings about secrets in files that every user of this host may read, and about connections that
// a man in the middle could read or impersonate.
func exposed(a *command.App) []string {
	var warnings []string
	for _, path := range a.Config.SecretFiles() {
		if worldReadable(path) {
			warnings = append(warnings, fmt.Sprintf("%s holds secrets, and every user of this host may read it: chmod o= %[1]s", path))
		}
	}
	dsns := map[string]config.Secret{"database.direct": a.Config.Database.Direct, "database.replica": a.Config.Database.Replica}
	if a.Config.Scheduler.Cls == config.Postgres {
		dsns["scheduler.db"], dsns["rpc_serve.door.db"] = a.Config.Scheduler.DB, a.Config.RPCServe.Door.DB
	}
	for _, key := range []string{"scheduler.db", "database.direct", "database.replica", "rpc_serve.door.db"} {
		if hosts := unverified(string(dsns[key])); len(hosts) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s reaches %s without sslmode=verify-full: a man in the middle could read all traffic, or impersonate the database", key, strings.Join(hosts, ", ")))
		}
	}
	for _, way := range []struct {
		key, do string
		hosts   []string
	}{
		{"celery.task_broker", "write amqps://", plainBroker(a.Config)},
		{"rabbitmq.management_url", "write https://", plainURL(string(a.Config.RabbitMQ.ManagementURL))},
		{"scheduler.url", "write https://", plainURL(string(a.Config.Scheduler.URL))},
		{"journal.brokers", "set security.protocol to SASL_SSL or SSL in journal.consumer_settings", plainKafka(a.Config.Journal)},
	} {
		if hosts := elsewhere(way.hosts); len(hosts) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s reaches %s without TLS: a man in the middle could read all traffic with its passwords, or change it; %s", way.key, strings.Join(hosts, ", "), way.do))
		}
	}
	return warnings
}

// plainBroker returns the hosts of the broker that are reached without TLS. It returns none for an unusable broker:
// another check reports that.
func plainBroker(c *config.Config) []string {
	broker, err := c.Broker()
	if err != nil {
		return nil
	}
	return broker.Plain()
}

// plainURL returns the host of a URL without TLS.
func plainURL(address string) []string {
	if u, err := url.Parse(address); err == nil && strings.EqualFold(u.Scheme, "http") {
		return []string{u.Hostname()}
	}
	return nil
}

// plainKafka returns the hosts of Kafka's brokers, unless they are reached over TLS.
func plainKafka(j config.Journal) (hosts []string) {
	if protocol := j.ConsumerSettings["security.protocol"]; strings.HasSuffix(strings.ToUpper(protocol), "SSL") {
		return nil
	}
	for _, broker := range j.Brokers {
		host, _, err := net.SplitHostPort(broker)
		if err != nil {
			host = broker
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// elsewhere returns those of hosts that are not this host, each once.
func elsewhere(hosts []string) (others []string) {
	for _, host := range hosts {
		if !isHere(host) && !slices.Contains(others, host) {
			others = append(others, host)
		}
	}
	return others
}

// isHere reports whether host is this one, by its name or address.
func isHere(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || err == nil && address.Unmap().IsLoopback()
}

// worldReadable reports whether every user of this host may read a file, by the modes of the file and of the
// directories above it.
func worldReadable(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o004 == 0 {
		return false
	}
	for directory := filepath.Dir(path); ; directory = filepath.Dir(directory) {
		if info, err := os.Stat(directory); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if directory == filepath.Dir(directory) {
			return true
		}
	}
}

// unverified returns the hosts of a DSN, except this one, whose certificate and name are not both checked. It
// returns none for a DSN that can't be read: other checks report that.
func unverified(dsn string) (hosts []string) {
	if dsn == "" {
		return nil
	}
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil
	}
	for _, way := range append([]*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
		if !isHere(way.Host) && (way.TLSConfig == nil || way.TLSConfig.InsecureSkipVerify) && !slices.Contains(hosts, way.Host) {
			hosts = append(hosts, way.Host)
		}
	}
	return hosts
}
