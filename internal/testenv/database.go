package testenv

import (
	"context"
	"testing"

	"swh-scheduler/sql/db"
)

// Database returns the URL of a fresh database as our migrations make it,
// dropped when the test ends. Tests of package sql must be external (sql_test),
// as this package imports it.
func Database(t testing.TB) string {
	t.Helper()
	return databaseFrom(t, template(t, "ours_"+db.Fingerprint(), func(ctx context.Context, dsn string) error {
		_, err := db.Migrate(ctx, dsn, db.MigrateOptions{})
		return err
	}))
}

// Migrate prepares a database for the scheduler.
func Migrate(t testing.TB, dsn string, options db.MigrateOptions) {
	t.Helper()
	if _, err := db.Migrate(t.Context(), dsn, options); err != nil {
		t.Fatal(err)
	}
}
