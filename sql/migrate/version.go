package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// PythonSchemaVersion is the version of the Python scheduler's schema that this program creates in an empty
// database. It also works with a later version that has everything in use.
const PythonSchemaVersion = 38

// leastPostgres is the oldest supported version of PostgreSQL.
const leastPostgres = 13

// squashedTo is the number of the last squashed migration. The migrations up to it replace earlier ones
// with the same result; a database with that number has all of them.
const squashedTo = 600

// peerModule is the value that the Python scheduler writes to dbmodule; older versions wrote the short
// form.
const (
	peerModule      = "scheduler:postgresql"
	peerModuleShort = "scheduler"
)

var peerTables = []string{
	"task_type", "task", "task_run", "listers", "listed_origins", "origin_visit_stats", "visit_scheduler_queue_position", "scheduler_metrics",
}

var (
	// ErrNotMigrated marks a database that needs "swh-scheduler migrate".
	ErrNotMigrated = errors.New(`the database is not ready for this program: run "swh-scheduler migrate"`)
	// ErrUnsupported marks a database that is no scheduler's, has an unknown schema version, or is on a
	// PostgreSQL that is too old.
	ErrUnsupported = errors.New("the database is not supported")
)

// Status is the state of a database.
type Status struct {
	Database            string   // its name, without password
	PythonSchemaVersion int      // version of the Python scheduler's schema; 0 for an empty database
	Applied             []string // our migrations, by file name, in the order of their numbers
	Pending             []string // the migrations that "migrate" would apply
	Newer               []int64  // migrations of a newer program that this one can work with
}

// Empty reports whether the database has no schema yet, not even the Python scheduler's.
func (s Status) Empty() bool { return s.PythonSchemaVersion == 0 }

// Ready reports whether there is nothing to migrate.
func (s Status) Ready() bool { return !s.Empty() && len(s.Pending) == 0 }

// Checks are the checks of a database. They change nothing.
type Checks struct{ db *postgres.DB }

// ChecksOf returns the checks of a database.
func ChecksOf(db *postgres.DB) Checks { return Checks{db} }

// CheckVersion checks that this program can work with the database. Daemons call it at start. The error is
// ErrNotMigrated, ErrUnsupported, or one of the connection.
func (s Checks) CheckVersion(ctx context.Context) error {
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if err := s.db.ReadTime(ctx); err != nil {
		return err
	}
	switch {
	case status.Empty():
		return fmt.Errorf("%w (%s is empty)", ErrNotMigrated, status.Database)
	case !status.Ready():
		return fmt.Errorf("%w (%s lacks %d of its migrations, from %s on)", ErrNotMigrated, status.Database, len(status.Pending), status.Pending[0])
	}
	return nil
}

// CheckWrites returns an error if the database takes no writes.
func (s Checks) CheckWrites(ctx context.Context) error {
	var readOnly bool
	err := s.db.Pool().QueryRow(ctx, "select current_setting('transaction_read_only')::bool").Scan(&readOnly)
	if err == nil && readOnly {
		err = errors.New("the database takes no writes, as a standby or with default_transaction_read_only: name the primary, or all hosts with target_session_attrs=read-write")
	}
	return err
}

// Status reads the state of the database, as ReadStatus does. It waits for a connection of the pool once.
func (s Checks) Status(ctx context.Context) (status Status, err error) {
	err = s.db.Pool().AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		status, err = inspect(ctx, conn, postgres.RedactedConfig(conn.Conn().Config()))
		return err
	})
	return status, err
}

// unsupported returns an ErrUnsupported with the fault of the database.
func (s Status) unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrUnsupported, s.Database, fmt.Sprintf(format, args...))
}

// inspect reads the state of a database and changes nothing. It returns ErrUnsupported for an unsupported
// one.
func inspect(ctx context.Context, db stmt.Session, name string) (Status, error) {
	status := Status{Database: name}
	var number int
	var server string
	var hasVersion, hasModule, hasOwn bool
	err := db.QueryRow(ctx, `
		select current_setting('server_version_num')::int, current_setting('server_version'),
		       to_regclass('public.dbversion') is not null,
		       to_regclass('public.dbmodule') is not null,
		       to_regnamespace('scheduler_go') is not null`).Scan(&number, &server, &hasVersion, &hasModule, &hasOwn)
	if err != nil {
		return status, fmt.Errorf("inspect database: %w", err)
	}
	if number/10000 < leastPostgres {
		return status, status.unsupported("is on PostgreSQL %s, and %d is the least that this program works with: upgrade the server", server, leastPostgres)
	}
	if !hasVersion {
		if err := status.checkEmpty(ctx, db, hasOwn); err != nil {
			return status, err
		}
		status.Pending = migrationNames()
		return status, nil
	}
	if err := status.inspectPeer(ctx, db, hasModule); err != nil {
		return status, err
	}
	return inspectOwn(ctx, db, status)
}

// checkEmpty refuses a database that has objects but no table dbversion.
func (s Status) checkEmpty(ctx context.Context, db stmt.Session, hasOwn bool) error {
	found, err := publicObjects(ctx, db)
	switch {
	case err != nil:
		return err
	case len(found) > 0:
		return s.unsupported("has no table dbversion and is not empty (it holds %s): use an empty database, "+
			"or one that the Python scheduler made", strings.Join(found, ", "))
	case hasOwn:
		return s.unsupported("has the schema scheduler_go but none of the Python scheduler's tables: " +
			"restore them, or drop that schema to start anew")
	}
	return nil
}

// inspectPeer reads the version of the Python scheduler's schema. It refuses a schema that lacks something
// in use.
func (s *Status) inspectPeer(ctx context.Context, db stmt.Session, hasModule bool) (err error) {
	if s.PythonSchemaVersion, err = stmt.FirstOrZero(stmt.Column[int](ctx, db, `select version from public.dbversion order by version desc limit 1`)); err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	switch {
	case s.PythonSchemaVersion == 0:
		return s.unsupported("has an empty table dbversion, so its schema version is not known, and only version %d "+
			`is supported: finish its set-up with the Python scheduler's "swh db init scheduler"`, PythonSchemaVersion)
	case s.PythonSchemaVersion < PythonSchemaVersion:
		return s.unsupported("has schema version %d, and only version %d is supported: upgrade it with the Python scheduler's "+
			`"swh db upgrade scheduler", then try again`, s.PythonSchemaVersion, PythonSchemaVersion)
	case !hasModule:
		return s.unsupported("has no table dbmodule, so whose schema version %d is meant is not known: "+
			"use a database that the Python scheduler made, or an empty one", s.PythonSchemaVersion)
	}
	modules, err := stmt.Column[string](ctx, db, `select coalesce(dbmodule, '') from public.dbmodule`)
	if err != nil {
		return fmt.Errorf("read the database's module: %w", err)
	}
	module := strings.Join(modules, "")
	if module != peerModule && module != peerModuleShort {
		return s.unsupported("belongs to the module %q, not to %q: use another database", module, peerModule)
	}
	missing, err := stmt.Column[string](ctx, db, `select t from unnest($1::text[]) as t where to_regclass('public.' || t) is null`, peerTables)
	if err != nil {
		return fmt.Errorf("find the Python scheduler's tables: %w", err)
	}
	if len(missing) > 0 {
		return s.unsupported("says it has schema version %d but lacks %s: restore it, or use another database",
			s.PythonSchemaVersion, strings.Join(missing, ", "))
	}
	if s.PythonSchemaVersion == PythonSchemaVersion {
		return nil
	}
	differences, err := peerDifferences(ctx, db)
	if err == nil && len(differences) > 0 {
		err = s.unsupported("has schema version %d, which differs from version %d in what this program uses (%s): "+
			"install a newer swh-scheduler", s.PythonSchemaVersion, PythonSchemaVersion, strings.Join(differences, "; "))
	}
	return err
}

// inspectOwn compares the database's migrations with this program's.
func inspectOwn(ctx context.Context, db stmt.Session, status Status) (Status, error) {
	applied, err := stmt.Column[int64](ctx, db, `select version_id from scheduler_go.migrations where is_applied and version_id > 0`)
	if postgres.SQLState(err) == "42P01" { // undefined table
		err = nil
	}
	if err != nil {
		return status, fmt.Errorf("read which migrations were applied: %w", err)
	}
	names, unknown := migrationNames(), slices.Clone(applied)
	for _, name := range names {
		if i := slices.Index(unknown, migrationVersion(name)); i >= 0 {
			status.Applied = append(status.Applied, name)
			unknown = slices.Delete(unknown, i, i+1)
		} else {
			status.Pending = append(status.Pending, name)
		}
	}
	if slices.Contains(unknown, removalBegun) {
		return status, fmt.Errorf("%w: %s: the removal of the schema scheduler_go has begun and not ended: "+
			`run "swh-scheduler migrate --remove" to end it`, ErrUnsupported, status.Database)
	}
	newer := slices.DeleteFunc(slices.Clone(unknown), func(v int64) bool { return v <= squashedTo })
	if len(newer) < len(unknown) && !slices.Contains(applied, squashedTo) {
		return status, fmt.Errorf("%w: %s was migrated by an older swh-scheduler, to migration %d, and can be upgraded from %d on only: "+
			`run "swh-scheduler migrate" of a version that has that migration first; or "swh-scheduler migrate --remove", `+
			"which refuses while work would be lost, and then migrate it anew", ErrUnsupported, status.Database, slices.Max(applied), squashedTo)
	}
	if len(newer) > 0 {
		since, err := stmt.FirstOrZero(stmt.Column[int64](ctx, db, `select since from scheduler_go.compatible`))
		if state := postgres.SQLState(err); err != nil && state != "42P01" {
			return status, fmt.Errorf("read which versions the schema is compatible with: %w", err)
		}
		if newest := migrationVersion(names[len(names)-1]); since > 0 && since <= newest {
			status.Newer = newer
			return status, nil
		}
		return status, fmt.Errorf("%w: %s was migrated by a newer swh-scheduler (this version has no migration %d): "+
			"install that version", ErrUnsupported, status.Database, slices.Max(newer))
	}
	return status, nil
}

// publicObjects lists a few objects of the schema public that belong to no extension.
func publicObjects(ctx context.Context, db stmt.Session) ([]string, error) {
	names, err := stmt.Column[string](ctx, db, `
		with objects as (
		  select 'pg_class'::regclass as catalogue, oid, 1 as rank, 'table ' || relname as name
		    from pg_class where relnamespace = to_regnamespace('public') and relkind in ('r', 'p', 'v', 'm', 'f')
		  union all
		  select 'pg_type'::regclass, oid, 2, 'type ' || typname
		    from pg_type where typnamespace = to_regnamespace('public') and typtype in ('e', 'd', 'r')
		  union all
		  select 'pg_proc'::regclass, oid, 3, 'function ' || proname
		    from pg_proc where pronamespace = to_regnamespace('public')
		)
		select name from objects
		 where not exists (
		   select from pg_depend
		    where classid = objects.catalogue and objid = objects.oid and deptype = 'e')
		 order by rank, name limit 5`)
	return names, stmt.Failed(err, "check whether the database is empty")
}
