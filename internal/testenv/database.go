package testenv

import (
	"context"
	"testing"

	"swh-scheduler/sql"
)

// Database returns the URL of a fresh database as our migrations make it,
// dropped when the test ends. Tests of package sql must be external (sql_test),
// as this package imports it.
func Database(t testing.TB) string {
	t.Helper()
	return databaseFrom(t, template(t, "ours_"+sql.Fingerprint(), func(ctx context.Context, dsn string) error {
		_, err := sql.Migrate(ctx, dsn, sql.MigrateOptions{})
		return err
	}))
}
