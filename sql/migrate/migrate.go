package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	schema "swh-scheduler/sql"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// Options configure Migrate.
type Options struct {
	DryRun  bool                    // change nothing; report what would be done
	Logger  *slog.Logger            // logs each step; may be nil
	Shares  map[string]model.Shares // by task type: Run creates their indexes
	Hosters model.Hosters           // Run creates their indexes
	// Policies, by visit type: Run creates their indexes. It rebuilds candidates without the columns for a
	// policy that divides originals and forks, or for freshness.
	Policies map[string][]model.WeightedPolicy
	// ShorterCooldowns makes Run create the indexes for cooldowns shorter than the default ones, even
	// without such a policy.
	ShorterCooldowns bool

	// Rebuild makes Run rebuild candidates, for instance after triggers were off. Until then grabs read the
	// Python scheduler's tables.
	Rebuild bool

	// Door is the action on the RPC servers' door to the database.
	Door DoorAction

	// Grants is the action on the roles with the rights of daemons.
	Grants GrantsAction
}

// Report lists what Run did, or would do in a dry run.
type Report struct {
	Database    string   // its name, without password
	CreatedBase bool     // the database was empty and got the Python scheduler's schema
	Applied     []string // our migrations, by file name
	Rebuilt     bool     // candidates were built anew
	Dropped     []string // invalid indexes of an interrupted run, with their schemas
	Indexes     []string // indexes that the configuration needs, in words
	Door        DoorAction
	DoorRole    string // the role created or dropped; "" for none
	Grants      GrantsAction
	GrantRoles  []string // the roles of daemons created or dropped
}

// Nothing reports whether there was nothing to do.
func (r Report) Nothing() bool {
	return !r.CreatedBase && len(r.Applied)+len(r.Dropped)+len(r.Indexes) == 0 && !r.Rebuilt && r.DoorRole == "" && len(r.GrantRoles) == 0
}

// migrateLock is the key of the advisory lock that serializes migrations: the letters "swhsched" as a
// number.
const migrateLock = 0x7377687363686564

// lockPoll is the period at which a waiting migration tries the lock. Waiting in the server would block a
// concurrent index build of the migration that holds the lock.
const lockPoll = 200 * time.Millisecond

// Run creates the Python scheduler's schema in an empty database, and in any database the missing parts of
// our schema scheduler_go. It changes nothing that the Python scheduler relies on. It returns
// ErrUnsupported for an unknown database. Concurrent calls wait for each other.
//
// The Python scheduler's schema and each migration have a transaction of their own, so after a failure the
// next call continues. Other programs work while candidates are built; the next call resumes an interrupted
// build.
//
// It needs a direct connection: a pooler that shares connections between transactions (PgBouncer) would
// break the lock.
func Run(ctx context.Context, dsn string, o Options) (Report, error) {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var report Report
	err := withConn(ctx, dsn, func(conn *pgx.Conn) error {
		if !o.DryRun {
			unlock, err := lockMigrations(ctx, conn, log)
			if err != nil {
				return err
			}
			defer unlock()
		}
		status, err := inspect(ctx, conn, postgres.RedactedConfig(conn.Config()))
		report.Database = status.Database
		if err != nil {
			return err
		}
		need := needOf(o.Shares, o.Hosters, o.Policies)
		need.ByCooldown = need.ByCooldown || o.ShorterCooldowns
		need.tasks = append(need.tasks, ofPriority)
		if o.DryRun {
			report.CreatedBase, report.Applied = status.Empty(), status.Pending
			if report.Dropped, err = invalidIndexes(ctx, conn); err != nil {
				return err
			}
			if len(status.Pending) > 0 { // what candidates have can't be read before all migrations
				need.Need = candidates.Need{}
			}
			missing, err := missingOf(ctx, conn, need)
			report.Rebuilt, report.Indexes = missing.ByFork || missing.ByFreshness, missing.inWords()
			return err
		}
		if status.Empty() {
			log.Info("creating the schema", "version", PythonSchemaVersion)
			if err := createBase(ctx, conn); err != nil {
				return err
			}
			report.CreatedBase = true
		}
		if len(status.Pending) > 0 {
			err := withLocker(ctx, conn, log, func(l *locker) (err error) {
				report.Applied, err = applyMigrations(ctx, conn, l, status.Pending)
				return err
			})
			if err != nil {
				return err
			}
		}
		if report.Dropped, err = dropInvalidIndexes(ctx, conn, log); err != nil {
			return err
		}
		missing, err := missingOf(ctx, conn, need)
		if err != nil {
			return err
		}
		report.Indexes = missing.inWords()
		missing.indexes = missing.indexes || len(report.Dropped) > 0
		if report.Rebuilt = o.Rebuild || missing.ByFork || missing.ByFreshness; report.Rebuilt {
			if err := candidates.GiveUp(ctx, conn, missing.Need); err != nil {
				return err
			}
		}
		if err := candidates.BuildAll(ctx, conn, log); err != nil {
			return err
		}
		if err := buildIndexes(ctx, conn, missing, log); err != nil {
			return err
		}
		if err := revokePublic(ctx, conn); err != nil {
			return err
		}
		switch report.Grants = o.Grants; o.Grants {
		case GrantsMade:
			report.GrantRoles, err = makeGrants(ctx, conn)
		case GrantsDropped:
			report.GrantRoles, err = dropGrants(ctx, conn, "--no-grants")
		default:
			err = keepGrants(ctx, conn)
		}
		if err != nil {
			return err
		}
		switch report.Door = o.Door; o.Door {
		case DoorOpened:
			report.DoorRole, err = openDoor(ctx, conn, log)
		case DoorClosed:
			var roles []string
			if roles, err = closeDoor(ctx, conn, "--no-door"); len(roles) > 0 {
				report.DoorRole = roles[0]
			}
		default:
			err = keepDoor(ctx, conn, log)
		}
		if o.Door != DoorKept { // also if it stays closed
			err = cmp.Or(err, keepDoorKey(ctx, conn))
		}
		return err
	})
	return report, err
}

// ReadStatus reads the state of a database and changes nothing. It returns ErrUnsupported for a database
// that Run would refuse.
func ReadStatus(ctx context.Context, dsn string) (status Status, err error) {
	err = withConn(ctx, dsn, func(conn *pgx.Conn) (err error) {
		status, err = inspect(ctx, conn, postgres.RedactedConfig(conn.Config()))
		return err
	})
	return status, err
}

// withConn runs do on a new connection.
func withConn(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	config, err := postgres.PoolConfig(dsn, postgres.Options{Command: "migrate"})
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

// lockMigrations waits until no other migration runs. The lock also ends with the
// connection.
func lockMigrations(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (unlock func(), err error) {
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
		if err := service.Sleep(ctx, lockPoll); err != nil {
			return nil, fmt.Errorf("wait for another migration to end: %w", err)
		}
	}
}

// createBase creates the Python scheduler's schema in an empty database, as its "swh db init-admin" and
// "swh db init" do.
func createBase(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := createExtensions(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "set local search_path = public"); err != nil {
			return err
		}
		files, err := fs.Glob(schema.Base, "base/*.sql")
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := schema.Base.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("create the schema (%s): %w", path.Base(file), err)
			}
		}
		// The Python scheduler's tools read these texts.
		_, err = tx.Exec(ctx, fmt.Sprintf(`
			insert into dbversion (version, release, description) values (%d, now(), 'DB initialization');
			insert into dbmodule (dbmodule) values ('%s')`, PythonSchemaVersion, peerModule))
		return stmt.Failed(err, "write the schema version")
	})
}

// applyMigrations applies the pending migrations.
func applyMigrations(ctx context.Context, conn *pgx.Conn, l *locker, pending []string) ([]string, error) {
	_, err := conn.Exec(ctx, `
		create schema if not exists scheduler_go;
		comment on schema scheduler_go is 'What the Go swh-scheduler adds; may be dropped to go back to the Python one'`)
	if err != nil {
		return nil, fmt.Errorf("create the schema scheduler_go (the role needs the right to create in the database): %w", err)
	}

	config := conn.Config()
	config.RuntimeParams["lock_timeout"] = l.timeout
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	var pid uint32
	if err := db.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	store, err := database.NewStore(goose.DialectPostgres, "scheduler_go.migrations")
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(schema.Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, dir,
		goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}

	var applied []string
	for {
		var result *goose.MigrationResult
		err := l.try(ctx, pid, "apply "+nextOf(pending, applied), func() (err error) {
			result, err = provider.UpByOne(ctx)
			return err
		})
		if errors.Is(err, goose.ErrNoNextVersion) {
			return applied, nil
		}
		if err != nil {
			return applied, err
		}
		name := path.Base(result.Source.Path)
		l.log.Info("applied migration", "migration", name, "took", result.Duration)
		applied = append(applied, name)
	}
}

// nextOf returns the first pending migration that is not applied; "migrations" if all are.
func nextOf(pending, applied []string) string {
	for _, name := range pending {
		if !slices.Contains(applied, name) {
			return name
		}
	}
	return "migrations"
}

// migrationNames returns the file names of our migrations, by number.
func migrationNames() []string {
	files, err := fs.Glob(schema.Migrations, "migrations/*.sql")
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
