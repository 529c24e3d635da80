package sql_test

import (
	"log/slog"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql"
)

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// An empty database becomes usable, and a second run has nothing to do.
func TestMigrateEmpty(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	report, err := sql.Migrate(t.Context(), dsn, sql.MigrateOptions{Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !report.CreatedBase || len(report.Applied) == 0 {
		t.Errorf("first run did %+v, want the schema and migrations", report)
	}
	report, err = sql.Migrate(t.Context(), dsn, sql.MigrateOptions{Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !report.Nothing() {
		t.Errorf("second run did %+v, want nothing", report)
	}
}
