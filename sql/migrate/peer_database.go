package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// PythonSchema is the Python scheduler's schema in a database, by the Python tools' tables.
type PythonSchema struct {
	HasModule   bool   // the table dbmodule exists
	Module      string // the package and its backend, such as "scheduler:postgresql"
	Versions    []PythonSchemaRelease
	CodeVersion int // the version that this program works with: the database's, if that is later and has everything in use
}

// PythonSchemaRelease is a row of dbversion. The newest comes first.
type PythonSchemaRelease struct {
	Number      int
	Release     time.Time // its date
	Description string    // its origin
}

// ReadPythonSchema reads the version of the Python scheduler's schema, even of an unsupported one. It changes
// nothing.
func ReadPythonSchema(ctx context.Context, dsn string) (peer PythonSchema, err error) {
	peer.CodeVersion = PythonSchemaVersion
	err = withConn(ctx, dsn, func(conn *pgx.Conn) error {
		var hasVersion bool
		err := conn.QueryRow(ctx, `select to_regclass('public.dbversion') is not null, to_regclass('public.dbmodule') is not null`).Scan(&hasVersion, &peer.HasModule)
		if err != nil {
			return fmt.Errorf("inspect database: %w", err)
		}
		if peer.HasModule {
			if peer.Module, err = stmt.FirstOrZero(stmt.Column[string](ctx, conn, `select coalesce(dbmodule, '') from public.dbmodule`)); err != nil {
				return fmt.Errorf("read the database's module: %w", err)
			}
		}
		if !hasVersion {
			return nil
		}
		rows, err := conn.Query(ctx, `select version, release, coalesce(description, '') from public.dbversion order by version desc`)
		if err != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
		peer.Versions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v PythonSchemaRelease, err error) {
			err = row.Scan(&v.Number, &v.Release, &v.Description)
			return v, err
		})
		if err != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
		if status, err := inspect(ctx, conn, ""); err == nil && !status.Empty() {
			peer.CodeVersion = status.PythonSchemaVersion
		} else if err != nil && !errors.Is(err, ErrUnsupported) {
			return err
		}
		return nil
	})
	return peer, err
}

// NameOf returns a database's address without its password.
func NameOf(dsn string) (string, error) {
	config, err := postgres.PoolConfig(dsn, postgres.Options{})
	if err != nil {
		return "", err
	}
	return postgres.RedactedConfig(config.ConnConfig), nil
}

// CreateDatabase creates the database of an address as a copy of a template, on a connection to template1.
// It returns the database's name.
func CreateDatabase(ctx context.Context, dsn, template string) (string, error) {
	config, err := postgres.PoolConfig(dsn, postgres.Options{Command: "db create"})
	if err != nil {
		return "", err
	}
	database := config.ConnConfig.Database
	if database == "" {
		database = config.ConnConfig.User // the server's default
	}
	config.ConnConfig.Database = "template1"
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, fmt.Sprintf("create database %s template %s", quoted(database), quoted(template)))
	return database, stmt.Failed(err, fmt.Sprintf("create the database %q", database))
}

// CreateExtensions creates the extensions of the Python scheduler's schema, and returns the database's address
// without its password.
func CreateExtensions(ctx context.Context, dsn string) (database string, err error) {
	err = withConn(ctx, dsn, func(conn *pgx.Conn) error {
		database = postgres.RedactedConfig(conn.Config())
		return createExtensions(ctx, conn)
	})
	return database, err
}

func createExtensions(ctx context.Context, db interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}) error {
	if _, err := db.Exec(ctx, `create extension if not exists "uuid-ossp" with schema public`); err != nil {
		return fmt.Errorf(`create the extension "uuid-ossp": %w; it comes with PostgreSQL's contrib package, and `+
			`takes a superuser, or since PostgreSQL 13 the right to create in the database: have one run `+
			`create extension "uuid-ossp" there, then try again`, err)
	}
	return nil
}
