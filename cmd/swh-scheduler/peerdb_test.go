package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// "swh db" has the Python program's output and exit codes, on a database that each creates. Scripts set up the archive's
// containers by it. Ours also creates its own schema, and prints no password.
func TestDatabaseTools(t *testing.T) {
	t.Parallel()
	swh := testenv.Swh(t)
	admin := testenv.Postgres(t)
	var dsn, file [2]string
	for i, name := range []string{"python", "go"} {
		database := "db_tools_" + name + "_" + value(t, admin, "select current_database()")
		dsn[i] = strings.Replace(admin, value(t, admin, "select current_database()"), database, 1)
		file[i] = configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn[i]))
		t.Cleanup(func() { execute(t, admin, "drop database if exists "+database+" with (force)") })
	}
	run := func(i int, args ...string) result {
		t.Helper()
		if i == 0 {
			return command(t, swh, environment("SWH_CONFIG_FILENAME="+file[0]), append([]string{"db"}, args...)...)
		}
		return ours(t, append([]string{"-C", file[1], "db"}, args...)...)
	}
	both := func(args ...string) {
		t.Helper()
		want, got := run(0, args...), run(1, args...)
		clean := func(i int, text string) string {
			status, _, _ := strings.Cut(text, " [") // without the date of its creation
			return strings.ReplaceAll(status, dsn[i], "DSN")
		}
		if got.code != want.code || clean(1, got.stdout) != clean(0, want.stdout) {
			t.Errorf("%q: exit code %d, want %d\ngot  %q\nwant %q\n%s", args, got.code, want.code, got.stdout, want.stdout, got.stderr)
		}
	}
	for i := range 2 {
		if r := run(i, "create", "scheduler"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	both("version", "scheduler")
	for i := range 2 {
		if r := run(i, "init-admin", "scheduler"); r.code != 0 || !strings.HasSuffix(r.stdout, " initialized (admin)\n") {
			t.Errorf("%+v", r)
		}
	}
	for _, line := range []string{
		"init --flavor default scheduler", "upgrade --non-interactive scheduler", "version scheduler", "version scheduler:postgresql",
		"version --history scheduler", "init scheduler", "version -p scheduler", "upgrade --to-version 40 scheduler", "frob",
	} {
		both(strings.Fields(line)...)
	}
	if got := value(t, dsn[1], "select (to_regnamespace('scheduler_go') is not null)::text"); got != "true" {
		t.Error("init makes no schema of ours")
	}

	// upgrade of a database that the Python scheduler created, and version for other databases.
	peer := ours(t, "-C", file[0], "db", "upgrade", "scheduler")
	if peer.code != 0 || value(t, dsn[0], "select (to_regnamespace('scheduler_go') is not null)::text") != "true" {
		t.Errorf("%+v", peer)
	}
	for _, tc := range []struct{ version, want string }{{"37", "current code version: 38\nversion: 37\n"}, {"39", "current code version: 39\nversion: 39\n"}} {
		execute(t, dsn[1], "update dbversion set version = "+tc.version)
		if r := run(1, "version", "scheduler"); r.code != 0 || !strings.HasSuffix(r.stdout, tc.want) {
			t.Errorf("version %s: %+v", tc.version, r)
		}
	}
	execute(t, dsn[1], "update dbversion set version = 37")
	for args, want := range map[string]string{
		"upgrade scheduler": "this program has no such upgrades",
		"version storage":   "this program has only the module scheduler, not 'storage'",
		"init":              "Missing argument 'MODULE'",
	} {
		if r := run(1, strings.Fields(args)...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	// --dbname replaces the file, and its password is not printed.
	secret := strings.Replace(dsn[0], "postgres@", "postgres:s3cret@", 1)
	if r := ours(t, "db", "init-admin", "--db-name="+secret, "scheduler"); r.code != 0 || strings.Contains(r.stdout+r.stderr, "s3cret") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "db", "--config-file="+file[1], "list"); r.code != 0 || !strings.HasPrefix(r.stdout, "scheduler scheduler:postgresql host=") {
		t.Errorf("%+v", r)
	}
	// Words may stand between a program named swh and the command.
	link := filepath.Join(t.TempDir(), "swh")
	if out, err := exec.Command("ln", "-s", binary, link).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if r := command(t, link, environment(), "-C", file[0], "db", "version", "scheduler"); r.code != 0 || !strings.HasSuffix(r.stdout, "\nversion: 38\n") {
		t.Errorf("%+v", r)
	}
}
