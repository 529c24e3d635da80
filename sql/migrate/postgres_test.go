package migrate_test

import (
	"errors"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// A PostgreSQL that is too old is refused with its version, and nothing is created. On any other the
// database is created. `make test-versions` chooses the versions.
func TestLeastPostgres(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	_, err := migrate.Run(t.Context(), dsn, migrate.Options{})
	conn := testenv.Connect(t, dsn)
	version := texts(t, conn, "select split_part(current_setting('server_version'), ' ', 1), current_setting('server_version_num')::int < 130000")
	made := len(texts(t, conn, "select 1 from pg_namespace where nspname = 'scheduler_go'")) > 0
	number, old := strings.CutSuffix(strings.Trim(version[0], "()"), ",t")
	if !old {
		if err != nil || !made {
			t.Errorf("on PostgreSQL %s: %v", number, err)
		}
		return
	}
	for _, err := range []error{err, testenv.OpenLocal(t, dsn).CheckVersion(t.Context())} {
		if !errors.Is(err, migrate.ErrUnsupported) || !strings.Contains(err.Error(), "is on PostgreSQL "+number+", and 13 is the least") {
			t.Errorf("%v, want it to refuse PostgreSQL %s", err, number)
		}
	}
	if made {
		t.Error("the schema scheduler_go was made")
	}
}
