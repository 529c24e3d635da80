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

// A DSN is safe if every host of it is this one, or is checked by name and certificate.
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

// Files that hold secrets are named if every user may read them, and others are not.
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
		"scheduler: {cls: remote, url: \"http://u:s3cret@h/\"}":                        true,
		"celery: {task_broker: \"amqp://h//;amqp://u:s3cret@h//\"}":                    true,
		"celery: {task_broker: \"amqp://h//\"}":                                        false,
		"rpc_serve: {token: s3cret}":                                                   true,
		"metrics: {pprof_token: s3cret-s3cret-s3cret}":                                 true,
		"journal: {consumer_settings: {sasl.password: s3cret}}":                        true,
		"journal: {consumer_settings: {sasl.username: u, ssl.key.location: /nowhere}}": false,
		"rpc_serve: {tls_certificate: rpc.crt, tls_key: /nowhere/rpc.key}":             false,
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
