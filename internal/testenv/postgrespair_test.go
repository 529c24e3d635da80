package testenv

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A full data disk fails statements that need space; a full WAL disk may end the server. With space again, all works,
// and has all commits.
func TestDiskOfPostgresFills(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts disks")
	}
	p := PostgresPairOnDisks(t, 512)
	const fill = "insert into t select n, repeat('x', 1000) from generate_series(1, 20000) n"
	if _, err := connect(t, p.DSN()).Exec(t.Context(), "create table t (n int, text text)"); err != nil {
		t.Fatal(err)
	}
	for _, wal := range []bool{false, true} {
		p.FillDisk(wal)
		_, err := connect(t, p.DSN()).Exec(t.Context(), fill)
		if refused, ok := errors.AsType[*pgconn.PgError](err); err == nil || !wal && (!ok || refused.Code != "53100") {
			t.Errorf("the disk is full (WAL: %t), and writing ends with %v", wal, err)
		}
		t.Log("the server had died:", p.FreeDisk())
		Becomes(t, "rows are written again", nil, func() error { // a server may still be ending all connections
			conn, err := pgx.Connect(t.Context(), p.DSN())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(t.Context()) }()
			_, err = conn.Exec(t.Context(), fill)
			return err
		})
		var rows int
		err = connect(t, p.DSN()).QueryRow(t.Context(), "select count(*) from t").Scan(&rows)
		if err != nil || rows%20000 != 0 || rows == 0 {
			t.Errorf("with room again, there are %d rows (%v)", rows, err)
		}
	}
}
