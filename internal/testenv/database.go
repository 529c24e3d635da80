package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"swh-scheduler/sql/migrate"
)

// Database returns the URL of a fresh migrated database, dropped when the test ends. Tests of package sql must be
// external (sql_test), as this package imports it.
func Database(t testing.TB) string {
	t.Helper()
	return databaseFrom(t, template(t, "ours_"+fingerprint(t), func(ctx context.Context, dsn string) error {
		_, err := migrate.Run(ctx, dsn, migrate.Options{})
		return err
	}))
}

// fingerprint returns a hash of the sources of migrate.Run, so that an outdated template is not used.
func fingerprint(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	sum := sha256.New()
	for _, sources := range []string{"sql/base/*.sql", "sql/migrations/*.sql", "sql/*/*.go", "internal/model/*.go"} {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(file), "../..", sources))
		if err != nil || len(names) == 0 {
			t.Fatalf("no files %s: %v", sources, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// Migrate prepares a database for the scheduler.
func Migrate(t testing.TB, dsn string, options migrate.Options) migrate.Report {
	t.Helper()
	report, err := migrate.Run(t.Context(), dsn, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
