package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoDoor marks a database whose door is closed.
var ErrNoDoor = errors.New(`the door to the database is closed: its owner opens it by "swh-scheduler migrate --door"`)

// ErrBadDoor marks a role that the door must not use. The error's text has the reason.
var ErrBadDoor = errors.New("the role of the door can't be used")

// Door makes the RPC server's connections for the clients of its door. It is safe for concurrent use.
type Door struct {
	db     *postgres.DB
	config *pgx.ConnConfig // of the configured DSN; nil: the role of "migrate --door"
}

// NewDoor returns the door to a database. It connects as the user of dsn, or without dsn as the role that
// "migrate --door" creates. It fails only for an unusable DSN.
func NewDoor(db *postgres.DB, dsn string) (*Door, error) {
	d := &Door{db: db}
	if dsn != "" {
		config, err := postgres.PoolConfig(dsn, postgres.Options{Command: "door"})
		if err != nil {
			return nil, fmt.Errorf("rpc_serve.door.db: %w", err)
		}
		d.config = config.ConnConfig
	}
	return d, nil
}

// Config returns the settings of a connection as the door's role for a daemon, by its command, or as the
// role for all if daemon is "". They have no parameters of a client. The error is ErrNoDoor while the door
// is closed. The connection is to the server itself, not to a pooler, if postgres.Options.Direct names the
// server.
func (d *Door) Config(ctx context.Context, daemon string) (*pgconn.Config, error) {
	if d.config != nil && daemon != "" {
		return nil, fmt.Errorf("%w: rpc_serve.door.db names one role for all daemons, and this client is for %s only", ErrBadDoor, daemon)
	}
	if d.config != nil {
		return d.config.Config.Copy(), nil
	}
	config := &d.db.Direct().Config
	err := d.db.Pool().QueryRow(ctx, "select role, password from scheduler_go.door where opened is not null").Scan(&config.User, &config.Password)
	switch {
	case errors.Is(err, pgx.ErrNoRows), noTable(err):
		return nil, ErrNoDoor
	case postgres.SQLState(err) == "42501": // insufficient privilege
		return nil, fmt.Errorf("%w: this server's role may not read scheduler_go.door: grant it the role that migrate --grants makes for rpc-serve, let it connect as the owner, or set rpc_serve.door.db", ErrBadDoor)
	case err != nil:
		return nil, fmt.Errorf("read the role of the door: %w", err)
	}
	if daemon == "" {
		return config, nil
	}
	var database string
	if err := d.db.Pool().QueryRow(ctx, "select current_database()").Scan(&database); err != nil {
		return nil, fmt.Errorf("read the role of the door: %w", err)
	}
	roles, err := readDoorRoles(ctx, d.db.Pool(), database)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		if r.daemon == daemon && r.ours {
			config.User = r.name
			return config, nil
		}
	}
	return nil, fmt.Errorf("%w: there is none for %s; the owner of the database makes it by \"swh-scheduler migrate --door\"", ErrBadDoor, daemon)
}

// doorFaults lists the privileges of a session's role that the door's role must not have.
const doorFaults = `
	with me as (select * from pg_catalog.pg_roles where rolname = current_user)
	select fault from (
	  select 1, 'is a superuser' from me where rolsuper
	  union all select 2, 'may make roles (CREATEROLE)' from me where rolcreaterole
	  union all select 3, 'may make databases (CREATEDB)' from me where rolcreatedb
	  union all select 4, 'may copy the whole server (REPLICATION)' from me where rolreplication
	  union all select 5, 'passes by row security (BYPASSRLS)' from me where rolbypassrls
	  union all select 6, format('owns the schema %s, or is a member of its owner', nspname) from pg_catalog.pg_namespace
	    where nspname in ('public', 'scheduler_go') and pg_catalog.pg_has_role(nspowner, 'member')
	  union all select 7, format('owns the table %s, or is a member of its owner', c.oid::pg_catalog.regclass) from pg_catalog.pg_class c
	    where c.oid in (pg_catalog.to_regclass('public.task'), pg_catalog.to_regclass('public.listed_origins'), pg_catalog.to_regclass('scheduler_go.work'))
	      and pg_catalog.pg_has_role(relowner, 'member')
	  union all select 8, format('may create in the schema %s', nspname) from pg_catalog.pg_namespace
	    where nspname in ('public', 'scheduler_go') and pg_catalog.has_schema_privilege(oid, 'create')
	  union all select 9, 'may create schemas in the database' where pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create')
	  union all select 10, 'may read the password of the door (scheduler_go.door)'
	    where pg_catalog.has_any_column_privilege(pg_catalog.to_regclass('scheduler_go.door'), 'select')
	  union all select 11, 'may read or write the sessions of the dashboard (scheduler_go.sessions, scheduler_go.form_key)'
	    where exists (select from unnest(array['scheduler_go.sessions', 'scheduler_go.form_key']) t, unnest(array['select', 'insert', 'update']) p
	      where pg_catalog.has_any_column_privilege(pg_catalog.to_regclass(t), p))
	  union all select 12, format('is a member of %s', rolname) from pg_catalog.pg_roles
	    where rolname in ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_signal_backend', 'pg_write_all_data', 'pg_read_all_data', 'pg_maintain', 'pg_checkpoint')
	      and pg_catalog.pg_has_role(oid, 'member')
	) f (place, fault) order by place, fault`

// CheckDoor does Check on a connection of the pool. It also checks the rights of the daemons, by their
// commands; none: of all that use the door. Missing rights are a RightsError.
func CheckDoor(ctx context.Context, db *postgres.DB, daemons ...string) error {
	if len(daemons) == 0 {
		daemons = model.DoorDaemons
	}
	if err := ChecksOf(db).CheckUsable(ctx, daemons[0]); err != nil {
		return err
	}
	for _, daemon := range daemons[1:] {
		if err := ChecksOf(db).CheckRights(ctx, daemon); err != nil {
			return err
		}
	}
	conn, err := db.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return new(Door).Check(ctx, conn.Conn().PgConn())
}

// DoorStatus is the state of a database's door.
type DoorStatus struct {
	Role   string    // the role for all daemons; "": the door is closed
	Opened time.Time // zero: the role is not complete, and the door is closed
	Wrong  error     // why the role of an open door can't be used: an error of CheckDoor or of the connection
}

// ReadDoor reads the state of a database's door. It connects as the door's role, and as the roles for the
// daemons, by their commands, and checks them. It changes nothing. The error is of the read; it is
// ErrBadDoor if the user lacks the right.
func ReadDoor(ctx context.Context, dsn string, daemons ...string) (status DoorStatus, err error) {
	db, err := postgres.Open(ctx, dsn, postgres.Options{Command: "migrate", MaxConns: 1})
	if err != nil {
		return status, err
	}
	defer db.Close()
	var opened *time.Time
	err = db.Pool().QueryRow(ctx, "select role, opened from scheduler_go.door").Scan(&status.Role, &opened)
	if errors.Is(err, pgx.ErrNoRows) || noTable(err) {
		return status, nil
	}
	if postgres.SQLState(err) == insufficientPrivilege {
		return status, fmt.Errorf("%w: only the owner of the database, and the role that migrate --grants makes for rpc-serve, may read scheduler_go.door", ErrBadDoor)
	}
	if err != nil || opened == nil {
		return status, stmt.Failed(err, "read the role of the door")
	}
	status.Opened = *opened
	status.Wrong = checkDoorRole(ctx, db, dsn, "")
	for _, daemon := range daemons {
		if status.Wrong == nil {
			status.Wrong = checkDoorRole(ctx, db, dsn, daemon)
		}
	}
	return status, nil
}

// checkDoorRole connects as the door's role for a daemon, or for all if daemon is "", and checks the role.
func checkDoorRole(ctx context.Context, db *postgres.DB, dsn, daemon string) error {
	way, err := (&Door{db: db}).Config(ctx, daemon)
	if err != nil {
		return err
	}
	as, err := postgres.Open(ctx, withUser(dsn, way.User, way.Password), postgres.Options{Command: "migrate", MaxConns: 1})
	if err != nil {
		return err
	}
	defer as.Close()
	if daemon == "" {
		return CheckDoor(ctx, as)
	}
	return CheckDoor(ctx, as, daemon)
}

// withUser returns a DSN, in either form, with another user.
func withUser(dsn, user, password string) string {
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" {
		u.User = url.UserPassword(user, password)
		q := u.Query()
		q.Del("user")
		q.Del("password")
		u.RawQuery = q.Encode()
		return u.String()
	}
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace
	return fmt.Sprintf("%s user='%s' password='%s'", dsn, quote(user), quote(password))
}

// Check returns an ErrBadDoor if the session's role has privileges that the door's role must not have, or
// if the connection is by a pooler that shares sessions.
func (d *Door) Check(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "select pg_catalog.pg_backend_pid()::text;"+doorFaults).ReadAll()
	if err == nil && (len(results) != 2 || len(results[0].Rows) != 1) {
		err = errors.New("an answer of another form was expected")
	}
	if err != nil {
		return fmt.Errorf("check the role of the door: %w", err)
	}
	if string(results[0].Rows[0][0]) != fmt.Sprint(conn.PID()) {
		return fmt.Errorf("%w: its address is that of a pooler, such as PgBouncer, which shares sessions: "+
			"name the server itself in database.direct or rpc_serve.door.db", ErrBadDoor)
	}
	var faults []string
	for _, row := range results[1].Rows {
		faults = append(faults, string(row[0]))
	}
	if faults != nil {
		return fmt.Errorf("%w: it %s", ErrBadDoor, strings.Join(faults, "; it "))
	}
	return nil
}
