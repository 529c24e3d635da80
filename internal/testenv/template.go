package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// template returns the name of the template database that build makes from an empty one. It builds the template if
// the server lacks it.
func template(t testing.TB, name string, build func(ctx context.Context, dsn string) error) string {
	t.Helper()
	name = "testenv_" + name
	unfinished := name + "_unfinished"
	onServer(t, func(ctx context.Context, server *pgx.Conn) error {
		// The key may be any fixed number.
		if _, err := server.Exec(ctx, "select pg_advisory_lock(7355608)"); err != nil {
			return err
		}
		defer func() { _, _ = server.Exec(ctx, "select pg_advisory_unlock(7355608)") }()
		var found bool
		if err := server.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&found); err != nil || found {
			return err
		}
		for _, statement := range []string{
			"drop database if exists " + quote(unfinished) + " with (force)",
			"create database " + quote(unfinished) + " template template0",
		} {
			if _, err := server.Exec(ctx, statement); err != nil {
				return err
			}
		}
		if err := build(ctx, withDatabase(t, unfinished)); err != nil {
			return fmt.Errorf("build the template database %s: %w", name, err)
		}
		if _, err := server.Exec(ctx, "alter database "+quote(unfinished)+" with allow_connections false"); err != nil {
			return err
		}
		// The last connection of build may take a moment to end, and a database in use can't be renamed or copied.
		for {
			if _, err := server.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", unfinished); err != nil {
				return err
			}
			_, err := server.Exec(ctx, "alter database "+quote(unfinished)+" rename to "+quote(name)) // waits 5 s itself
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "55006" { // in use
				return err
			}
		}
	})
	return name
}

func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
