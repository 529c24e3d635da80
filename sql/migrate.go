package sql

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"swh-scheduler/internal/scheduler"
)

// The peer's schema, and what we add to it.
var (
	//go:embed base/*.sql
	baseFiles embed.FS
	//go:embed migrations/*.sql
	migrationFiles embed.FS
)

// MigrateOptions say how to migrate.
type MigrateOptions struct {
	DryRun bool                        // change nothing, report what would be done
	Logger *slog.Logger                // told of each step; nil: nobody is
	Shares map[string]scheduler.Shares // by task type: what these need is made too
}

// MigrateReport says what Migrate did, or would do in a dry run.
type MigrateReport struct {
	Database    string   // which one, without password
	CreatedBase bool     // it was empty and got the peer's schema
	Applied     []string // our migrations, by file name
}

// Nothing tells that there was nothing to do.
func (r MigrateReport) Nothing() bool { return !r.CreatedBase && len(r.Applied) == 0 }

// migrateLock is the key of the advisory lock that lets one migration run at a
// time: the letters "swhsched" as a number.
const migrateLock = 0x7377687363686564

// lockPoll is how often a migration that has to wait looks for the lock again.
// It polls because waiting in the server would hold back a concurrent index
// build of the migration that has the lock.
const lockPoll = 200 * time.Millisecond

// A migration that makes a trigger needs a lock on a table of the peer's for a
// moment. While it waits for a transaction that writes there, all writers that
// come after it wait too; so it gives up soon, before PostgreSQL looks for
// deadlocks (deadlock_timeout, 1 s) and may find the fault with them, and lets
// those pass before it tries again.
const (
	lockTimeout      = "500ms"
	lockRetry        = time.Second
	lockNotAvailable = "55P03" // SQLSTATE
)

// Migrate makes a database usable: an empty one gets the peer's schema, and
// that one, or one that the peer made, gets our own objects in the schema
// scheduler_go. Nothing that the peer relies on is changed. On a database that
// is ready already it does nothing; one that it does not know it leaves alone
// (ErrUnsupported). Several may run at once: they wait for each other.
//
// The peer's schema is made in one transaction and each migration in another,
// so that one that fails can be run again once the cause is gone. Candidates
// (see candidates.go) are built while others work, and the build can be
// interrupted: the next run goes on with it.
//
// It needs a direct connection: behind a pooler that shares connections between
// transactions (PgBouncer), the lock would not hold.
func Migrate(ctx context.Context, dsn string, o MigrateOptions) (MigrateReport, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var report MigrateReport
	err := withConn(ctx, dsn, func(conn *pgx.Conn) error {
		if !o.DryRun {
			unlock, err := lockMigrations(ctx, conn, log)
			if err != nil {
				return err
			}
			defer unlock()
		}
		status, err := inspect(ctx, conn, redacted(conn.Config()))
		report.Database = status.Database
		if err != nil {
			return err
		}
		if o.DryRun {
			report.CreatedBase, report.Applied = status.Empty(), status.Pending
			return nil
		}
		if status.Empty() {
			log.Info("creating the schema", "version", PeerVersion)
			if err := createBase(ctx, conn); err != nil {
				return err
			}
			report.CreatedBase = true
		}
		if len(status.Pending) > 0 {
			if report.Applied, err = applyMigrations(ctx, conn, log); err != nil {
				return err
			}
		}
		if err := buildCandidates(ctx, conn, log); err != nil {
			return err
		}
		return buildForShares(ctx, conn, o.Shares, log)
	})
	return report, err
}

// MigrateStatus reads what a database holds and changes nothing. A database
// that Migrate would leave alone is an error, ErrUnsupported.
func MigrateStatus(ctx context.Context, dsn string) (Status, error) {
	var status Status
	err := withConn(ctx, dsn, func(conn *pgx.Conn) error {
		var err error
		status, err = inspect(ctx, conn, redacted(conn.Config()))
		return err
	})
	return status, err
}

// DropOwn goes back to the peer alone: it drops the schema scheduler_go with all
// that it holds, and whatever of ours hangs on the peer's tables (triggers) goes
// with it. Messages still in the outbox, and work that waits in lanes, are lost: let
// the daemons deliver them first. The peer's tables keep their rows.
func DropOwn(ctx context.Context, dsn string) error {
	return withConn(ctx, dsn, func(conn *pgx.Conn) error {
		unlock, err := lockMigrations(ctx, conn, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer unlock()
		if err := dropOwnIndexes(ctx, conn); err != nil {
			return fmt.Errorf("drop our indexes on the peer's tables: %w", err)
		}
		if _, err := conn.Exec(ctx, "drop schema if exists scheduler_go cascade"); err != nil {
			return fmt.Errorf("drop the schema scheduler_go: %w", err)
		}
		return nil
	})
}

// withConn runs do on a connection of its own.
func withConn(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	config, err := poolConfig(dsn, Options{Command: "migrate"})
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// lockMigrations waits until no other migration runs. The lock also goes when
// the connection ends.
func lockMigrations(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (unlock func(), err error) {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for waiting := false; ; waiting = true {
		var locked bool
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", int64(migrateLock)).Scan(&locked); err != nil {
			return nil, fmt.Errorf("lock migrations: %w", err)
		}
		if locked {
			return func() {
				_, _ = conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(migrateLock))
			}, nil
		}
		if !waiting {
			log.Info("waiting for another migration to end")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration to end: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// createBase gives an empty database the peer's schema, as its "swh db
// init-admin" and "swh db init" would.
func createBase(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `create extension if not exists "uuid-ossp" with schema public`); err != nil {
			return fmt.Errorf(`create the extension "uuid-ossp": %w; it comes with PostgreSQL's contrib package, and `+
				`takes a superuser, or since PostgreSQL 13 the right to create in the database: have one run `+
				`create extension "uuid-ossp" there, then try again`, err)
		}
		if _, err := tx.Exec(ctx, "set local search_path = public"); err != nil {
			return err
		}
		files, err := fs.Glob(baseFiles, "base/*.sql")
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := baseFiles.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("create the schema (%s): %w", path.Base(file), err)
			}
		}
		// These texts are the peer's: its tools read them.
		_, err = tx.Exec(ctx, fmt.Sprintf(`
			insert into dbversion (version, release, description) values (%d, now(), 'DB initialization');
			insert into dbmodule (dbmodule) values ('%s')`, PeerVersion, peerModule))
		if err != nil {
			return fmt.Errorf("write the schema version: %w", err)
		}
		return nil
	})
}

// applyMigrations applies our migrations that the database lacks.
func applyMigrations(ctx context.Context, conn *pgx.Conn, log *slog.Logger) ([]string, error) {
	_, err := conn.Exec(ctx, `
		create schema if not exists scheduler_go;
		comment on schema scheduler_go is 'What the Go swh-scheduler adds; may be dropped to go back to the Python one'`)
	if err != nil {
		return nil, fmt.Errorf("create the schema scheduler_go (the role needs the right to create in the database): %w", err)
	}

	config := conn.Config()
	config.RuntimeParams["lock_timeout"] = lockTimeout
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	store, err := database.NewStore(goose.DialectPostgres, "scheduler_go.migrations")
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, dir,
		goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}

	var applied []string
	for waiting := false; ; {
		result, err := provider.UpByOne(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return applied, nil
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
			if !waiting {
				log.Info("waiting for a table that others write to", "error", pg.Message)
			}
			waiting = true
			select {
			case <-ctx.Done():
				return applied, fmt.Errorf("wait for a table that others write to: %w", ctx.Err())
			case <-time.After(lockRetry):
			}
			continue
		}
		if err != nil {
			return applied, fmt.Errorf("apply migrations: %w", err)
		}
		name := path.Base(result.Source.Path)
		log.Info("applied migration", "migration", name, "took", result.Duration)
		applied = append(applied, name)
		waiting = false
	}
}

// migrationNames are the file names of our migrations, by number.
func migrationNames() []string {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for i, file := range files {
		files[i] = path.Base(file)
	}
	return files // sorted: the numbers have leading zeros
}

// migrationVersion is the number at the start of a migration's file name.
func migrationVersion(name string) int64 {
	number, _, _ := strings.Cut(name, "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		panic(err) // the embedded file is misnamed
	}
	return version
}

// Fingerprint changes whenever what Migrate makes of an empty database does, so
// that a copy kept as a template can be told from an old one.
func Fingerprint() string {
	sum := sha256.New()
	io.WriteString(sum, candidateIndexesFile+listerIndexesFile)
	for _, files := range []embed.FS{baseFiles, migrationFiles} {
		_ = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, _ error) error {
			if entry.IsDir() {
				return nil
			}
			text, err := files.ReadFile(name)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
			return err
		})
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
