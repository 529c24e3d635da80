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
	"name the server itself in database.direct")

// duplicateStatement is the SQLSTATE of a prepared statement that another session has made on the shared connection.
const duplicateStatement = "42P05"

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
	before, err := backendPID(ctx, conns[0])
	if err != nil {
		return nil
	}
	// The transaction takes the connection that the pooler used last.
	tx, err := conns[1].Begin(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := backendPID(ctx, conns[1]); err != nil {
		return nil
	}
	after, err := backendPID(ctx, conns[0])
	if err == nil && after != before {
		return fmt.Errorf("%s: %w", RedactedConfig(config), ErrPooler)
	}
	return nil
}

func backendPID(ctx context.Context, conn *pgx.Conn) (pid int32, err error) {
	err = conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid)
	return pid, err
}
