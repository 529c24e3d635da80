package migrate

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// DoorAction is Migrate's action on the door.
type DoorAction int

const (
	DoorKept   DoorAction = iota // the role of an open door gets the rights on new objects
	DoorOpened                   // the role is created or gets a new password
	DoorClosed                   // the role is dropped and its sessions end
)

// OwnerError reports that the database's role may not do a step of opening or closing the door. The door is
// closed meanwhile.
type OwnerError struct {
	Role       string   // the role without the right
	Statements []string // the statements that another role has to run in this database
	Then       string   // the option of migrate to run after them
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("the role %s may not do all that this takes. Have a superuser, or who may make roles, run this in the database:\n\n%s;\n\nThen run \"swh-scheduler migrate %s\" again",
		e.Role, strings.Join(e.Statements, ";\n"), e.Then)
}

// doorState is the known state of the door.
type doorState struct {
	role, password string
	noted, opened  bool   // recorded in scheduler_go.door
	exists         bool   // the role exists
	may            bool   // the current user may create and alter roles
	super          bool   // the current user is a superuser
	user           string // the current user
	openSchemas    []string
	daemons        []daemonRole // the roles for single daemons
}

func readDoor(ctx context.Context, db stmt.Session) (d doorState, err error) {
	var database string
	err = db.QueryRow(ctx, `select current_database(), current_user, rolsuper, rolsuper or rolcreaterole from pg_catalog.pg_roles where rolname = current_user`).
		Scan(&database, &d.user, &d.super, &d.may)
	if err != nil {
		return d, fmt.Errorf("check whether the door is open: %w", err)
	}
	err = db.QueryRow(ctx, "select role, password, opened is not null from scheduler_go.door").Scan(&d.role, &d.password, &d.opened)
	if d.noted = err == nil; errors.Is(err, pgx.ErrNoRows) || noTable(err) {
		d.role, err = doorRole(database), nil
	}
	if err == nil {
		err = db.QueryRow(ctx, "select exists (select from pg_catalog.pg_roles where rolname = $1)", d.role).Scan(&d.exists)
	}
	if err == nil {
		d.daemons, err = readDoorRoles(ctx, db, database)
	}
	if err == nil { // the default until PostgreSQL 15, and in databases from then
		d.openSchemas, err = stmt.Column[string](ctx, db, `select nspname from pg_catalog.pg_namespace,
			lateral pg_catalog.aclexplode(coalesce(nspacl, pg_catalog.acldefault('n', nspowner))) a
			where nspname in ('public', 'scheduler_go') and a.grantee = 0 and a.privilege_type = 'CREATE'`)
	}
	return d, stmt.Failed(err, "check whether the door is open")
}

// noTable reports whether an error is a missing table or schema.
func noTable(err error) bool {
	return postgres.SQLState(err) == "42P01" || postgres.SQLState(err) == "3F000"
}

// doorRole returns the name of the door's role. It is unique on a server, as roles belong to the server and
// not to a database.
func doorRole(database string) string { return roleOf("scheduler_go_door_", database) }

// roleOf returns the name of a role of a database. The name has a hash of the database's name if that is
// too long or looks like such a hash.
func roleOf(prefix, database string) string {
	if name := formerRoleOf(prefix, database); name != prefix+database || !likeHash.MatchString(database) {
		return name
	}
	return hashedRole(prefix, database)
}

var likeHash = regexp.MustCompile("^[0-9a-f]{16}$")

// formerRoleOf is roleOf in former versions: names that look like a hash stay as they are.
func formerRoleOf(prefix, database string) string {
	const most = 63
	if name := prefix + database; len(name) <= most {
		return name
	}
	return hashedRole(prefix, database)
}

func hashedRole(prefix, database string) string {
	sum := sha256.Sum256([]byte(database))
	return fmt.Sprintf("%s%x", prefix, sum[:8])
}

// quoted quotes a name for a statement.
func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// scramSecret returns PostgreSQL's stored form of a password, so that the password is in none of its logs.
func scramSecret(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	keyed := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(keyed("Server Key"))), nil
}

// openDoor creates the door's role, or gives it a new password, with the rights that daemons need. The
// caller holds the lock of migrations.
func openDoor(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (role string, err error) {
	d, err := readDoor(ctx, conn)
	if err != nil {
		return "", err
	}
	if d.exists && !d.noted {
		return "", fmt.Errorf("there is a role %s on this server which the door did not make: drop or rename it, or name another user in rpc_serve.door.db", d.role)
	}
	for _, r := range d.daemons {
		if r.exists && !r.ours {
			return "", fmt.Errorf("there is a role %s on this server which the door did not make: drop or rename it", r.name)
		}
	}
	if len(d.openSchemas) > 0 {
		return "", publicMayCreate(ctx, conn, d)
	}
	if d.may || !d.noted {
		d.password = rand.Text() + rand.Text()
	}
	statements, err := d.doorRoleStatements()
	if err != nil {
		return "", err
	}
	const note = `insert into scheduler_go.door (role, password, opened) values ($1, $2, null)
		on conflict (only_row) do update set role = excluded.role, password = excluded.password, opened = null`
	if d.may || d.exists {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, note, d.role, d.password); err != nil {
				return err
			}
			if d.may {
				for _, statement := range statements {
					if _, err := tx.Exec(ctx, statement); err != nil {
						return err
					}
				}
				for i := range d.daemons {
					d.daemons[i].exists = true
				}
			}
			if err := d.grantDoorRoles(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "update scheduler_go.door set opened = now()")
			return err
		})
	}
	if !d.may && !d.exists || d.may && postgres.SQLState(err) == "42501" {
		if _, err := conn.Exec(ctx, note, d.role, d.password); err != nil {
			return "", fmt.Errorf("open the door: %w", err)
		}
		return "", &OwnerError{Role: d.user, Statements: statements, Then: "--door"}
	}
	if err != nil {
		return "", fmt.Errorf("open the door: %w", err)
	}
	if err := tryDoor(ctx, conn, d, log); err != nil || d.may || len(statements) == 0 {
		return d.role, err
	}
	return "", &OwnerError{Role: d.user, Statements: statements, Then: "--door"} // the door is open, but not for these daemons
}

// publicMayCreate returns an OwnerError if all roles may create objects in our schemas.
func publicMayCreate(ctx context.Context, conn *pgx.Conn, d doorState) error {
	owner, err := stmt.FirstOrZero(stmt.Column[string](ctx, conn, `select pg_catalog.pg_get_userbyid(relowner)::text from pg_catalog.pg_class where oid = 'public.task'::regclass`))
	if err != nil {
		return err
	}
	e := &OwnerError{Role: d.user, Then: "--door"}
	for _, schema := range d.openSchemas {
		e.Statements = append(e.Statements, fmt.Sprintf("revoke create on schema %s from public", quoted(schema)),
			fmt.Sprintf("grant create on schema %s to %s", quoted(schema), quoted(owner)))
	}
	return fmt.Errorf("every role may create in the schema %s, and so could run code as others: %w", strings.Join(d.openSchemas, " and "), e)
}

// tryDoor connects as the door's role.
func tryDoor(ctx context.Context, conn *pgx.Conn, d doorState, log *slog.Logger) error {
	config := conn.Config().Config.Copy()
	config.User, config.Password = d.role, d.password
	as, err := pgconn.ConnectConfig(ctx, config)
	if err == nil {
		defer func() { _ = as.Close(ctx) }()
		err = new(Door).Check(ctx, as)
	}
	if errors.Is(err, ErrBadDoor) || postgres.SQLState(err) == "28P01" {
		_, shut := conn.Exec(ctx, "update scheduler_go.door set opened = null")
		return errors.Join(fmt.Errorf("the door stays closed: connect as %s: %w", d.role, err), shut)
	}
	if err != nil { // other hosts may be able to connect
		log.Warn("the door is open, but its role can't connect from here; RPC servers may not be able to either", "role", d.role, "error", err)
	}
	return nil
}

// keepDoor grants the roles of an open door the rights on new objects.
func keepDoor(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	d, err := readDoor(ctx, conn)
	if err != nil || !d.opened {
		return err
	}
	if !d.exists {
		log.Warn(`the door is open, but its role is not there, as after a restore on another server: run "swh-scheduler migrate --door"`, "role", d.role)
		return nil
	}
	return stmt.Failed(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return d.grantDoorRoles(ctx, tx) }), "give the door's roles their rights")
}

// doorTables are the rights on tables of the schema public.
var doorTables = map[string]string{
	"dbversion": "select", "dbmodule": "select",
	"task_type": "select, insert", "task": "select, insert, update, delete", "task_run": "select, insert, update, delete",
	"listers": "select, insert, update", "listed_origins": "select, insert, update", "origin_visit_stats": "select, insert, update",
	"visit_scheduler_queue_position": "select, insert, update", "scheduler_metrics": "select, insert, update, delete",
}

// grantDoor grants a role the rights that daemons need, and revokes all its others.
func grantDoor(ctx context.Context, tx pgx.Tx, role string) error {
	if err := revokeDoor(ctx, tx, role); err != nil {
		return err
	}
	statements := []string{"grant usage on schema public, scheduler_go to %s"}
	for _, table := range slices.Sorted(maps.Keys(doorTables)) {
		statements = append(statements, "grant "+doorTables[table]+" on public."+table+" to %s")
	}
	own, err := stmt.Column[string](ctx, tx, `select format('grant %s on scheduler_go.%I to ',
		case when relname in ('migrations', 'compatible') then 'select' when relname = 'actions' then 'select, delete' when relkind = 'S' then 'usage, select, update' else 'select, insert, update, delete' end, relname) || '%s'
		from pg_catalog.pg_class where relnamespace = 'scheduler_go'::regnamespace and relkind in ('r', 'p', 'v', 'S') and relname not in ('door', 'sessions', 'form_key')
		union all
		select format('grant usage on sequence public.%I to ', s.relname) || '%s' from pg_catalog.pg_class s
		join pg_catalog.pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.oid and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
		join pg_catalog.pg_class t on t.oid = d.refobjid
		where s.relkind = 'S' and t.relnamespace = 'public'::regnamespace and t.relname = any($1)
		union all
		select format('grant execute on function %s to ', p.oid::regprocedure) || '%s' from pg_catalog.pg_proc p
		where pronamespace in ('public'::regnamespace, 'scheduler_go'::regnamespace) and prokind = 'f'
		and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
		and not exists (select from pg_catalog.pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')`, slices.Sorted(maps.Keys(doorTables)))
	if err != nil {
		return err
	}
	for _, statement := range append(statements, own...) {
		if _, err := tx.Exec(ctx, fmt.Sprintf(statement, quoted(role))); err != nil {
			return fmt.Errorf("%s: %w", fmt.Sprintf(statement, role), err)
		}
	}
	return nil
}

// revokeDoor revokes a role's rights on both schemas.
func revokeDoor(ctx context.Context, tx pgx.Tx, role string) error {
	for _, what := range []string{"schema", "all tables in schema", "all sequences in schema", "all functions in schema"} {
		if _, err := tx.Exec(ctx, "revoke all on "+what+" public, scheduler_go from "+quoted(role)); err != nil {
			return err
		}
	}
	return nil
}

// closeDoor ends the sessions of the door's roles and drops the roles, for an option of migrate. It returns
// the roles, first the one for all daemons. The caller holds the lock of migrations.
func closeDoor(ctx context.Context, conn *pgx.Conn, option string) (roles []string, err error) {
	d, err := readDoor(ctx, conn)
	if err != nil || !d.noted {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "update scheduler_go.door set opened = null"); err != nil {
		return nil, fmt.Errorf("close the door: %w", err)
	}
	if err := dropDoorRoles(ctx, conn, d, option); err != nil {
		return nil, fmt.Errorf("close the door: %w", err)
	}
	_, err = conn.Exec(ctx, "delete from scheduler_go.door")
	roles = d.names()
	if !d.exists {
		roles = append([]string{d.role}, roles...)
	}
	return roles, stmt.Failed(err, "close the door")
}

// doorSessions is the period of checks whether all sessions have ended.
const doorSessions = 100 * time.Millisecond

func dropDoorRoles(ctx context.Context, conn *pgx.Conn, d doorState, option string) error {
	names := d.names()
	if len(names) == 0 {
		return nil
	}
	terminate := func(name string) string {
		return "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where usename = '" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	lacking := func() error {
		e := &OwnerError{Role: d.user, Then: option}
		for _, name := range names {
			e.Statements = append(e.Statements, "alter role "+quoted(name)+" nologin", terminate(name), "drop owned by "+quoted(name), "drop role "+quoted(name))
		}
		return errors.Join(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, name := range names {
				if err := revokeDoor(ctx, tx, name); err != nil {
					return err
				}
			}
			return nil
		}), e)
	}
	if !d.may {
		return lacking()
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, name := range names {
			if _, err := tx.Exec(ctx, "alter role "+quoted(name)+" nologin"); err != nil {
				return err
			}
			if d.super {
				continue
			}
			if _, err := tx.Exec(ctx, "grant "+quoted(name)+" to current_user"); err != nil { // needed to end the role's sessions and to drop its objects
				return err
			}
		}
		return nil
	})
	if postgres.SQLState(err) == "42501" {
		return lacking()
	}
	for _, name := range names {
		for err == nil {
			var pids []bool
			if pids, err = stmt.Column[bool](ctx, conn, terminate(name)); len(pids) == 0 {
				break
			}
			if err == nil {
				err = service.Sleep(ctx, doorSessions)
			}
		}
	}
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, name := range names {
			if _, err := tx.Exec(ctx, "drop owned by "+quoted(name)+"; drop role "+quoted(name)); err != nil {
				return err
			}
		}
		return nil
	})
}
