package main

import (
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A replica behind a pooler is refused with advice about database.replica: database.direct doesn't help it.
func TestReplicaBehindAPooler(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	pooler := testenv.PgBouncer(t, dsn)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ndatabase: {direct: %q, replica: %q}\n", dsn, dsn, pooler))
	r := ours(t, "-C", config, "config", "check", "--for", "rpc-serve")
	if !strings.Contains(r.stdout, "WRONG database.replica:") || strings.Contains(r.stdout, "itself in database.direct") {
		t.Errorf("%+v", r)
	}
}
