package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/stmt"
)

// madeForDoor is the comment that marks a role of the door for a daemon.
const madeForDoor = "Whom the door of the Go swh-scheduler lets in as a daemon, from migrate --door"

// roleByDoor returns the name of the door's role for a daemon.
func roleByDoor(daemon, database string) string {
	return roleOf("scheduler_go_by_door_"+daemon+"_", database)
}

// readDoorRoles returns the door's roles for daemons.
func readDoorRoles(ctx context.Context, db stmt.Session, database string) ([]daemonRole, error) {
	roles, err := readRoles(ctx, db, model.DoorDaemons, func(daemon string) string { return roleByDoor(daemon, database) }, madeForDoor)
	return roles, stmt.Failed(err, "list the roles of the door")
}

// readRoles returns the existing roles of daemons, by name and by the comment that marks ours.
func readRoles(ctx context.Context, db stmt.Session, daemons []string, name func(daemon string) string, comment string) (roles []daemonRole, err error) {
	for _, daemon := range daemons {
		r := daemonRole{daemon: daemon, name: name(daemon)}
		if err == nil {
			err = db.QueryRow(ctx, `select count(*) > 0, coalesce(bool_or(pg_catalog.shobj_description(oid, 'pg_authid') = $2), false)
				from pg_catalog.pg_roles where rolname = $1`, r.name, comment).Scan(&r.exists, &r.ours)
		}
		roles = append(roles, r)
	}
	return roles, err
}

// doorRoleStatements returns the statements that create the missing roles of the door, and give the
// existing ones their password if the user may.
func (d doorState) doorRoleStatements() (statements []string, err error) {
	role := func(name string, exists bool, comment string) error {
		secret, err := scramSecret(d.password)
		verb := "create"
		if exists {
			verb = "alter"
		}
		if !exists || d.may {
			statements = append(statements, fmt.Sprintf("%s role %s with login noinherit nocreatedb nocreaterole password '%s'", verb, quoted(name), secret))
		}
		if !exists && comment != "" {
			statements = append(statements, "comment on role "+quoted(name)+" is '"+comment+"'")
		}
		return err
	}
	err = role(d.role, d.exists, "")
	for _, r := range d.daemons {
		if err == nil {
			err = role(r.name, r.exists, madeForDoor)
		}
	}
	return statements, err
}

// names returns the existing roles of the door, first the one for all daemons.
func (d doorState) names() (names []string) {
	if d.noted && d.exists {
		names = append(names, d.role)
	}
	for _, r := range d.daemons {
		if r.ours {
			names = append(names, r.name)
		}
	}
	return names
}

// grantDoorRoles grants the existing roles of the door their rights.
func (d doorState) grantDoorRoles(ctx context.Context, tx pgx.Tx) error {
	var there []daemonRole
	for _, r := range d.daemons {
		if r.exists {
			there = append(there, r)
		}
	}
	if err := grantDoor(ctx, tx, d.role); err != nil {
		return err
	}
	return grantDaemons(ctx, tx, there)
}
