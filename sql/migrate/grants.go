package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// GrantsAction is Migrate's action on the roles of daemons.
type GrantsAction int

const (
	GrantsKept    GrantsAction = iota // existing roles get the rights on new objects
	GrantsMade                        // the roles are created
	GrantsDropped                     // the roles are dropped
)

// DaemonRole returns the name of the role with the rights of a daemon, by its command. It is unique on a
// server, as roles belong to the server and not to a database.
func DaemonRole(daemon, database string) string {
	return roleOf("scheduler_go_"+strings.ReplaceAll(daemon, "-", "_")+"__", database)
}

// formerDaemonRole returns the name that DaemonRole returned before names were unique: that of start-runner for the
// database first_visits_x was that of start-runner-first-visits for x.
func formerDaemonRole(daemon, database string) string {
	return formerRoleOf("scheduler_go_"+strings.ReplaceAll(daemon, "-", "_")+"_", database)
}

// madeByUs is the comment that marks such a role.
const madeByUs = "The rights of a daemon of the Go swh-scheduler, from migrate --grants; to be granted to a user"

// daemonRole is a role that may exist.
type daemonRole struct {
	daemon, name string
	exists, ours bool
	rename       string // the name that a user with the right gives it; "" if it has that name
}

func readDaemonRoles(ctx context.Context, db stmt.Session) (roles []daemonRole, user string, may bool, err error) {
	var database string
	err = db.QueryRow(ctx, `select current_database(), current_user, rolsuper or rolcreaterole from pg_catalog.pg_roles where rolname = current_user`).
		Scan(&database, &user, &may)
	if err == nil {
		roles, err = readRoles(ctx, db, Daemons, func(daemon string) string { return DaemonRole(daemon, database) }, madeByUs)
	}
	for i, r := range roles {
		former := formerDaemonRole(r.daemon, database)
		if err != nil || r.exists || former == r.name {
			continue
		}
		// A former name may belong to another database: this database's role has rights here only.
		var found bool
		err = db.QueryRow(ctx, `select exists (select from pg_catalog.pg_roles r where rolname = $1 and pg_catalog.shobj_description(oid, 'pg_authid') = $2
			and (select pg_catalog.array_agg(distinct dbid) from pg_catalog.pg_shdepend where dbid <> 0 and refclassid = 'pg_authid'::regclass and refobjid = r.oid)
				= array[(select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())])`, former, madeByUs).Scan(&found)
		if found {
			roles[i] = daemonRole{daemon: r.daemon, name: former, exists: true, ours: true, rename: r.name}
		}
	}
	return roles, user, may, stmt.Failed(err, "list the roles of daemons")
}

// renameRoles renames roles with a former name. If the user may not rename a role, it keeps its name and
// works.
func renameRoles(ctx context.Context, conn *pgx.Conn, roles []daemonRole) error {
	for i, r := range roles {
		if r.rename == "" {
			continue
		}
		_, err := conn.Exec(ctx, "alter role "+quoted(r.name)+" rename to "+quoted(r.rename))
		if postgres.SQLState(err) == insufficientPrivilege {
			continue
		}
		if err != nil {
			return fmt.Errorf("rename the role %s: %w", r.name, err)
		}
		roles[i].name, roles[i].rename = r.rename, ""
	}
	return nil
}

// makeGrants creates the missing roles of daemons, and grants each its rights. The caller holds the lock of
// migrations.
func makeGrants(ctx context.Context, conn *pgx.Conn) (made []string, err error) {
	roles, user, may, err := readDaemonRoles(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := renameRoles(ctx, conn, roles); err != nil {
		return nil, err
	}
	lacking := &OwnerError{Role: user, Then: "--grants"}
	for _, r := range roles {
		if r.exists && !r.ours {
			return nil, fmt.Errorf("there is a role %s on this server that migrate --grants did not make: drop or rename it", r.name)
		}
		if !r.exists {
			made = append(made, r.name)
			lacking.Statements = append(lacking.Statements, "create role "+quoted(r.name)+" nologin",
				"comment on role "+quoted(r.name)+" is '"+madeByUs+"'")
		}
	}
	if len(made) > 0 && !may {
		return nil, lacking
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range lacking.Statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return grantDaemons(ctx, tx, roles)
	})
	return made, stmt.Failed(err, "give the roles of daemons their rights")
}

// keepGrants grants the existing roles the rights on new objects.
func keepGrants(ctx context.Context, conn *pgx.Conn) error {
	roles, _, _, err := readDaemonRoles(ctx, conn)
	roles = slices.DeleteFunc(roles, func(r daemonRole) bool { return !r.ours })
	if err == nil {
		err = renameRoles(ctx, conn, roles)
	}
	if err != nil || len(roles) == 0 {
		return err
	}
	return stmt.Failed(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return grantDaemons(ctx, tx, roles) }), "give the roles of daemons their rights")
}

// grantDaemons grants each role its daemon's rights, and revokes all its others on both schemas.
func grantDaemons(ctx context.Context, tx pgx.Tx, roles []daemonRole) error {
	for _, r := range roles {
		if err := revokeDoor(ctx, tx, r.name); err != nil {
			return err
		}
		needed := slices.Concat(listed("public", peerRights, r.daemon), listed("scheduler_go", ownRights, r.daemon), listed("scheduler_go", dashboardRights, r.daemon))
		grants, err := stmt.Column[string](ctx, tx, `
			select format('grant %s on %s %I.%I', string_agg(distinct w.right, ', '), w.kind, n.nspname, c.relname)
			from `+neededObjects+`
			group by w.kind, n.nspname, c.relname
			union all
			select 'grant execute on function ' || p.oid::regprocedure from pg_catalog.pg_proc p
			where pronamespace = 'scheduler_go'::regnamespace and prorettype <> 'trigger'::regtype and not prosecdef`,
			column(needed, 0), column(needed, 1), column(needed, 2), column(needed, 3), column(needed, 4))
		if err != nil {
			return err
		}
		for _, grant := range append([]string{"grant usage on schema public, scheduler_go"}, grants...) {
			if _, err := tx.Exec(ctx, grant+" to "+quoted(r.name)); err != nil {
				return fmt.Errorf("%s to %s: %w", grant, r.name, err)
			}
		}
		if r.daemon == rpcServe {
			if err := grantDoorKey(ctx, tx, r.name); err != nil {
				return err
			}
		}
	}
	return nil
}

const rpcServe = "rpc-serve"

// grantDoorKey grants a role of RPC servers the right to read the door's password while the door is open,
// and revokes it otherwise.
func grantDoorKey(ctx context.Context, tx pgx.Tx, role string) error {
	var open bool
	if err := tx.QueryRow(ctx, "select exists (select from scheduler_go.door where opened is not null)").Scan(&open); err != nil {
		return err
	}
	statement := "revoke all on table scheduler_go.door from "
	if open {
		statement = "grant select on table scheduler_go.door to "
	}
	_, err := tx.Exec(ctx, statement+quoted(role))
	return err
}

// keepDoorKey is grantDoorKey for the role of migrate --grants, if it exists.
func keepDoorKey(ctx context.Context, conn *pgx.Conn) error {
	roles, _, _, err := readDaemonRoles(ctx, conn)
	for _, r := range roles {
		if err == nil && r.daemon == rpcServe && r.ours {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return grantDoorKey(ctx, tx, r.name) })
		}
	}
	return stmt.Failed(err, "let RPC servers read the role of the door")
}

// dropGrants drops the roles of daemons. Users with these roles lose the rights. The caller holds the lock
// of migrations.
func dropGrants(ctx context.Context, conn *pgx.Conn, option string) (dropped []string, err error) {
	roles, user, may, err := readDaemonRoles(ctx, conn)
	if err != nil {
		return nil, err
	}
	lacking := &OwnerError{Role: user, Then: option}
	for _, r := range roles {
		if r.ours {
			dropped = append(dropped, r.name)
			lacking.Statements = append(lacking.Statements, "drop role "+quoted(r.name))
		}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, name := range dropped {
			if err := revokeDoor(ctx, tx, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(dropped) == 0 {
		return nil, err
	}
	if !may {
		return nil, lacking
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range lacking.Statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if postgres.SQLState(err) == insufficientPrivilege {
		return nil, lacking
	}
	return dropped, stmt.Failed(err, "drop the roles of daemons")
}

// revokePublic revokes the rights of PUBLIC on our functions: PostgreSQL lets all roles execute a new
// function. Triggers, and functions that they call, run with their owner's rights.
func revokePublic(ctx context.Context, conn *pgx.Conn) error {
	var open bool
	err := conn.QueryRow(ctx, `select exists (select from pg_catalog.pg_proc, lateral pg_catalog.aclexplode(coalesce(proacl, pg_catalog.acldefault('f', proowner)))
		where pronamespace = 'scheduler_go'::regnamespace and grantee = 0)`).Scan(&open)
	if err == nil && open {
		_, err = conn.Exec(ctx, "revoke execute on all functions in schema scheduler_go from public")
	}
	return stmt.Failed(err, "take our functions from PUBLIC")
}
