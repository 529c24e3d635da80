package origins_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/migrate"
)

// tool runs a client program of PostgreSQL, and returns its output and its error.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}

// A dumped and restored database, after the steps in docs/how-to/upgrade.md, picks the same origins, and
// its candidates follow changes. This holds with our schema in the dump, without it, and with the rows
// alone, with triggers on or off.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	w, peer := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	r := seed.Rand(t)
	sqltest.Keep(t, w.store)
	w.change(t, r, 50) // recorded, not drained
	f := w.plain(r, plainPolicies[r.IntN(len(plainPolicies))])
	want := w.sortKeys(t, f, peer.grab(t, f, w.now, 50, true))

	// rows is a dump without the rows that a new database has, too.
	withoutSchema, rows := []string{"--exclude-schema=scheduler_go"}, []string{"--exclude-table=dbversion", "--exclude-table=dbmodule", "--data-only"}
	for name, c := range map[string]struct {
		dump, restore    []string
		migrated, refuse bool // the new database is migrated before; parts of the dump are refused
		rebuild          bool
	}{
		"everything":         {},
		"without our schema": {dump: withoutSchema, refuse: true},
		"rows, triggers off": {dump: append(withoutSchema, rows...), restore: []string{"--disable-triggers"}, migrated: true, rebuild: true},
		"rows, triggers on":  {dump: append(withoutSchema, rows...), migrated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, dsn := filepath.Join(t.TempDir(), "dump"), testenv.Postgres(t)
			if c.migrated {
				testenv.Migrate(t, dsn, migrate.Options{})
			}
			if out, err := tool(t, "pg_dump", append([]string{"-Fc", "-f", file, "-d", w.dsn}, c.dump...)...); err != nil {
				t.Fatal(out, err)
			}
			out, err := tool(t, "pg_restore", append([]string{"--no-owner", "-d", dsn, file}, c.restore...)...)
			if (err != nil) != c.refuse {
				t.Fatal(out, err)
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, "error: ") && !strings.Contains(line, `schema "scheduler_go" does not exist`) {
					t.Error(line)
				}
			}
			testenv.Migrate(t, dsn, migrate.Options{Rebuild: c.rebuild})
			restored := &grabWorld{dsn: dsn, store: testenv.OpenLocal(t, dsn+"?timezone=Europe/Paris"), listers: w.listers, now: w.now}
			if diff := cmp.Diff(want, restored.sortKeys(t, f, restored.grab(t, f, 50, true))); diff != "" {
				t.Errorf("%+v (-before +after):\n%s", f, diff)
			}
			restored.change(t, seed.Rand(t), 50)
			sqltest.Keep(t, restored.store)
			sqltest.CheckCandidates(t, restored.store)
			if n := check(t, restored.store); n != 0 {
				t.Errorf("%d origins are wrong", n)
			}
		})
	}
}
