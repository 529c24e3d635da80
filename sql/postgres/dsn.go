package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrBadDSN marks an unusable database address. Its text contains no part of the address, which may be a
// misplaced password.
var ErrBadDSN = errors.New("database address (DSN) cannot be used")

const dsnForms = `write it as "host=db.example dbname=scheduler user=swh" or ` +
	`"postgresql://swh@db.example:5432/scheduler" (special characters of a password percent-encoded)`

// These are keys of libpq, which the Python scheduler uses. pgx ignores them and would send them to the
// server as parameters. Any other unknown key is an error, as in libpq. The error doesn't show the key,
// which may be a piece of a password.
var (
	// harmlessKeys only tune a connection; they are dropped.
	harmlessKeys = []string{
		"client_encoding", "fallback_application_name", "load_balance_hosts", "sslcompression",
		"gsslib", "gssdelegation",
	}
	// unsupportedKeys would make a connection safer, or another one, so they must not be dropped silently.
	unsupportedKeys = []string{
		"gssencmode", "hostaddr", "replication", "requirepeer", "sslcrl", "sslcrldir", "sslkeylogfile",
		"ssl_min_protocol_version", "ssl_max_protocol_version",
		"scram_client_key", "scram_server_key",
		"oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope",
	}
)

// parseCauses are the messages of pgx that give the cause without quoting the address.
var parseCauses = []string{
	"failed to read service", "failed to configure TLS", "invalid port", "could not match",
	"invalid connect_timeout", "invalid sslcertmode", "unknown target_session_attrs",
	"unknown channel_binding", "invalid require_auth", "invalid min_protocol_version",
	"invalid max_protocol_version", "cannot parse statement_cache_capacity",
	"cannot parse description_cache_capacity", "invalid default_query_exec_mode",
	"cannot parse pool_max_conns", "cannot parse pool_min_conns", "cannot parse pool_min_idle_conns",
	"cannot parse pool_max_conn_lifetime", "cannot parse pool_max_conn_idle_time",
	"cannot parse pool_health_check_period", "pool_max_conns too small",
}

// PoolConfig parses a DSN in either form of libpq, with libpq's environment variables, service and password
// files.
func PoolConfig(dsn string, o Options) (*pgxpool.Config, error) {
	if strandedAt(dsn) {
		return nil, badDSN(`a stray "@": one that belongs to a password is written %40, a "/" %2F`)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of a certificate or a key
		return nil, fmt.Errorf("%w: %s: %s can't be read: %w", ErrBadDSN, parseCause(err), file.Path, file.Err)
	}
	if err != nil {
		return nil, badDSN(parseCause(err))
	}
	dialer, err := sockets(config.ConnConfig.RuntimeParams)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DialFunc = dialer.DialContext
	if err := checkKeys(config.ConnConfig); err != nil {
		return nil, err
	}
	config.ConnConfig.OnPgError = keepAfter

	params := config.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = strings.TrimSpace("swh-scheduler " + o.Command)
	}
	if params["timezone"] == "" {
		// The trigger adds days to times. In UTC, without daylight saving, a day is 24 hours.
		params["timezone"] = "UTC"
	}
	params["client_encoding"] = "UTF8"
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, 10*time.Second)
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = cmp.Or(o.MaxConns, 10) // the default of the Python scheduler's max_pool_conns
	}
	return config, nil
}

// keepAfter reports whether a connection is usable after an error. A connection to a server that has become
// a standby is not: the primary is elsewhere.
func keepAfter(_ *pgconn.PgConn, err *pgconn.PgError) bool {
	return !strings.EqualFold(err.Severity, "FATAL") && err.Code != ReadOnly
}

// checkKeys refuses keys that libpq doesn't know or pgx can't honour, from the DSN or a service file. It
// removes keys that the server would take as its own parameters.
func checkKeys(config *pgx.ConnConfig) error {
	for key, value := range config.RuntimeParams {
		switch {
		case key == "application_name" || key == "options" || key == "timezone": // the last from PGTZ
		case slices.Contains(harmlessKeys, key) || (key == "gssencmode" && value != "require"):
			delete(config.RuntimeParams, key)
		case slices.Contains(unsupportedKeys, key):
			return badDSN(fmt.Sprintf("%s is not supported", key))
		default:
			return badDSN("a key that libpq does not know (server parameters go into options: options='-c name=value')")
		}
	}
	return nil
}

// strandedAt reports whether a URI has an "@" of a password that was not percent-encoded. The apparent host
// or database is then a piece of the password, and would be shown when the connection fails.
func strandedAt(dsn string) bool {
	scheme, rest, found := strings.Cut(dsn, "://")
	if !found || (scheme != "postgres" && scheme != "postgresql") {
		return false
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		rest = rest[i+1:]
	}
	place, query, _ := strings.Cut(rest, "?")
	if strings.Contains(place, "@") {
		return true
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if strings.Contains(pair, "@") && key != "password" && key != "sslpassword" {
			return true
		}
	}
	return false
}

func parseCause(err error) string {
	text := err.Error()
	text = text[strings.LastIndex(text, "`")+1:]
	if i := slices.IndexFunc(parseCauses, func(cause string) bool { return strings.Contains(text, cause) }); i >= 0 {
		return parseCauses[i]
	}
	return "its form is wrong"
}

func badDSN(cause string) error { return fmt.Errorf("%w: %s; %s", ErrBadDSN, cause, dsnForms) }

// Redacted returns the database of a DSN without the password, for messages.
func Redacted(dsn string) string {
	config, err := PoolConfig(dsn, Options{})
	if err != nil {
		return "a database address that cannot be read"
	}
	return RedactedConfig(config.ConnConfig)
}

func RedactedConfig(c *pgx.ConnConfig) string {
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s", c.Host, c.Port, c.Database, c.User)
}
