package daemons_test

import (
	"testing"

	"go.uber.org/goleak"
)

// pgx closes a connection whose statement was cancelled in the background, for up to 15 s.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead"))
}
