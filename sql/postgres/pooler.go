package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrPooler marks the address of a pooler that shares connections between transactions, where a session is needed.
var ErrPooler = errors.New("its address is that of a pooler, such as PgBouncer, that shares connections between transactions: " +
	"name the server itself (for scheduler.db, in database.direct)")

// duplicateStatement is the SQLSTATE of a prepared statement that another session has made on the shared connection.
const duplicateStatement = "42P05"

// poolerTries is how often CheckSessions looks: a pooler with other clients may give both sessions what they had.
const poolerTries = 10

// poolerPatience bounds CheckSessions, as a pooler without a free connection lets clients wait.
const poolerPatience = 3 * time.Second

// CheckSessions returns ErrPooler if two sessions at the direct address share a connection. It returns nil if it can't
// connect.
func (d *DB) CheckSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	config := d.Direct()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // without prepared statements
	var conns [2]*pgx.Conn
	for i := range conns {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		conns[i] = conn
	}
	var seen [2]int32
	for range poolerTries {
		// While one session is in a transaction, the other one gets another connection from a pooler.
		tx, err := conns[1].Begin(ctx)
		if err != nil {
			return nil
		}
		var now [2]int32
		for i, conn := range conns {
			if now[i], err = backendPID(ctx, conn); err != nil {
				return nil
			}
			if now[i] == seen[1-i] || seen[i] != 0 && now[i] != seen[i] {
				return fmt.Errorf("%s: %w", RedactedConfig(config), ErrPooler)
			}
		}
		seen = now
		if err := tx.Rollback(ctx); err != nil {
			return nil
		}
		if seen[0], err = backendPID(ctx, conns[0]); err != nil {
			return nil
		}
	}
	return nil
}

func backendPID(ctx context.Context, conn *pgx.Conn) (pid int32, err error) {
	err = conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid)
	return pid, err
}
