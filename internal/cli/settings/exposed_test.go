package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
)

// A DSN is safe if each host is this one, or is verified by name and certificate.
func TestUnverified(t *testing.T) {
	for _, name := range []string{"PGSSLMODE", "PGHOST", "PGSERVICE", "PGSSLROOTCERT"} {
		t.Setenv(name, "")
	}
	for dsn, want := range map[string][]string{
		"":                                      nil,
		"postgresql://u:p@db.example/x":         {"db.example"},
		"host=db.example sslmode=disable":       {"db.example"},
		"host=db.example sslmode=prefer":        {"db.example"},
		"host=db.example sslmode=require":       {"db.example"},
		"host=10.1.2.3 sslmode=verify-ca":       {"10.1.2.3"},
		"host=db.example sslmode=verify-full":   nil,
		"host=a.example,b.example,localhost":    {"a.example", "b.example"},
		"host=localhost":                        nil,
		"host=127.0.0.1,127.0.0.2,::1":          nil,
		"host=/run/postgresql":                  nil,
		"host=/run/postgresql,db.example":       {"db.example"},
		"host=@abstract":                        nil,
		"postgresql:///x?host=/run/postgresql":  nil,
		"postgresql://db.example:port/":         nil,
		"host=127.0.0.1.evil.example dbname=x":  {"127.0.0.1.evil.example"},
		"host=localhost.evil.example dbname=x ": {"localhost.evil.example"},
	} {
		if got := unverified(dsn); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dsn, got, want)
		}
	}
}

// Files with secrets are reported if every user may read them.
func TestExposedFiles(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	directory := t.TempDir()
	for at := directory; at != filepath.Dir(at) && strings.HasPrefix(at, os.TempDir()) && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := write("rpc.key", "", 0o644)
	warned := func(text string, mode os.FileMode) string {
		t.Helper()
		c, _, err := config.Load(write("scheduler.yml", text, mode))
		if err != nil {
			t.Fatal(err)
		}
		a := command.New("", new(strings.Builder), new(strings.Builder))
		a.Config, a.Log = c, slog.New(slog.DiscardHandler)
		return strings.Join(exposed(a), "\n")
	}
	for text, secret := range map[string]bool{
		"scheduler: {cls: postgresql, db: dbname=x}":                                   false,
		"scheduler: {cls: postgresql, db: \"postgresql://u@localhost/x\"}":             false,
		"scheduler: {cls: postgresql, db: \"postgresql://u:s3cret@localhost/x\"}":      true,
		"scheduler: {cls: postgresql, db: host=localhost password = s3cret}":           true,
		"scheduler: {cls: remote, url: \"http://u:s3cret@localhost/\"}":                true,
		"celery: {task_broker: \"amqp://localhost//;amqp://u:s3cret@localhost//\"}":    true,
		"celery: {task_broker: \"amqp://localhost//\"}":                                false,
		"rpc_serve: {token: s3cret}":                                                   true,
		"metrics: {pprof_token: s3cret-s3cret-s3cret}":                                 true,
		"journal: {consumer_settings: {sasl.password: s3cret}}":                        true,
		"journal: {consumer_settings: {sasl.username: u, ssl.key.location: /nowhere}}": false,
		"rpc_serve: {tls_certificate: rpc.crt, tls_key: /nowhere/rpc.key}":             false,
		// A password can be guessed from its hash, a long random token can't
		"rpc_serve: {clients: [{name: a, password_hash: \"$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW\", roles: [reader]}]}": true,
		"rpc_serve: {clients: [{name: a, token_sha256: a000000000000000000000000000000000000000000000000000000000000001, roles: [reader]}]}":  false,
	} {
		file := filepath.Join(directory, "scheduler.yml")
		if got := warned(text, 0o644); strings.Contains(got, file+" holds secrets") != secret || strings.Contains(got, "s3cret") {
			t.Errorf("%s: %q", text, got)
		}
		if got := warned(text, 0o640); got != "" {
			t.Errorf("%s, of a group: %q", text, got)
		}
	}
	keyed := "rpc_serve: {tls_certificate: rpc.crt, tls_key: rpc.key}"
	if got := warned(keyed, 0o644); got != key+" holds secrets, and every user of this host may read it: chmod o= "+key {
		t.Errorf("a key: %q", got)
	}
	if err := os.Chmod(directory, 0o750); err != nil {
		t.Fatal(err)
	}
	if got := warned(keyed, 0o644); got != "" {
		t.Errorf("in a directory of a group: %q", got)
	}
}

// The check reports the broker, its management API, the RPC server and Kafka on other hosts without TLS. It prints no
// password.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"celery: {task_broker: 'amqp://u:s3cret@mq.example//'}":                                    "celery.task_broker reaches mq.example without TLS",
		"celery: {task_broker: 'amqps://mq1.example//;amqp://mq2.example//;amqp://localhost//'}":   "celery.task_broker reaches mq2.example without TLS",
		"celery: {task_broker: 'amqps://u:s3cret@mq.example//'}":                                   "",
		"celery: {task_broker: 'amqp://mq.example//', broker_use_ssl: true}":                       "",
		"celery: {task_broker: 'amqp://127.0.0.1//;amqp://localhost//'}":                           "",
		"rabbitmq: {management_url: 'http://u:s3cret@mq.example:15672/'}":                          "rabbitmq.management_url reaches mq.example without TLS",
		"rabbitmq: {management_url: 'https://mq.example:15671/'}":                                  "",
		"rabbitmq: {management_url: 'http://[::1]:15672/'}":                                        "",
		"scheduler: {cls: remote, url: 'http://u:s3cret@scheduler.example:5008/'}":                 "scheduler.url reaches scheduler.example without TLS",
		"scheduler: {cls: remote, url: 'https://scheduler.example:5008/'}":                         "",
		"scheduler: {cls: remote, url: 'http://127.0.0.1:5008/'}":                                  "",
		"journal: {brokers: ['k1.example:9092', 'k2.example:9092', '127.0.0.1:9092']}":             "journal.brokers reaches k1.example, k2.example without TLS",
		"journal: {brokers: [k.example], consumer_settings: {security.protocol: SASL_PLAINTEXT}}":  "journal.brokers reaches k.example without TLS",
		"journal: {brokers: ['k.example:9093'], consumer_settings: {security.protocol: sasl_ssl}}": "",
		"statsd: {}\njournal: {brokers: ['localhost:9092'], consumer_settings: {}}":                "",
		"rabbitmq: {management_url: 'http://localhost.evil.example/'}":                             "reaches localhost.evil.example",
	} {
		file := filepath.Join(t.TempDir(), "config.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(file)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := strings.Join(exposed(&command.App{Config: c}), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s:\n%s\nwant %q", text, got, want)
		}
	}
}
