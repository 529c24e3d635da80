package migrate_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// No two databases of a server, and no two daemons, have roles with the same name. No name exceeds
// PostgreSQL's length.
func TestNamesOfRolesAreUnique(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(database string) string{"the door": migrate.DoorRole}
	for _, daemon := range migrate.Daemons {
		kinds["granted for "+daemon] = func(database string) string { return migrate.DaemonRole(daemon, database) }
	}
	for _, daemon := range model.DoorDaemons {
		kinds["the door's for "+daemon] = func(database string) string { return migrate.RoleByDoor(daemon, database) }
	}
	long := strings.Repeat("long_", 12) + "end"
	databases := []string{"x", "scheduler", "first_visits_x", "_x", "__x", "first-visits_x", long, "door_x", "by_door_x", "0123456789abcdef"}
	for kind, name := range kinds {
		prefix := strings.TrimSuffix(name("x"), "x")
		for _, other := range kinds { // a database whose name makes this kind's role names start like the other's
			for _, database := range []string{"x", long} {
				if rest, ok := strings.CutPrefix(other(database), prefix); ok && rest != "" {
					databases = append(databases, rest)
				}
			}
		}
		sum := sha256.Sum256([]byte(long))
		databases = append(databases, fmt.Sprintf("%x", sum[:8]))
		if len(name(long)) > 63 {
			t.Errorf("%s: %s is too long", kind, name(long))
		}
	}
	of := map[string]string{}
	for kind, name := range kinds {
		seen := map[string]bool{}
		for _, database := range databases {
			if seen[database] {
				continue
			}
			seen[database] = true
			who := kind + " of " + database
			if other, taken := of[name(database)]; taken {
				t.Errorf("%s: it is the role of %s and of %s", name(database), other, who)
			}
			of[name(database)] = who
		}
	}
	if got := migrate.DaemonRole("start-listener", "scheduler"); got != "scheduler_go_start_listener__scheduler" {
		t.Error(got)
	}
}

// Roles with former names keep their users. The next migrate by a user with the right renames them. Roles
// of another database don't change. A removal drops roles with either name.
func TestFormerNamesOfRoles(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	database := withGrants(t, dsn)
	has := func(role string) bool {
		return testenv.Value[bool](t, owner, fmt.Sprintf("select exists (select from pg_roles where rolname = '%s')", role))
	}
	user, store := withRole(t, dsn)
	role, former := migrate.DaemonRole("start-listener", database), migrate.FormerDaemonRole("start-listener", database)
	testenv.Exec(t, owner, fmt.Sprintf("grant %q to %q; alter role %[1]q rename to %[3]q", role, user, former))
	for _, o := range []migrate.Options{{}, {Grants: migrate.GrantsMade}} {
		if r := testenv.Migrate(t, dsn, o); len(r.GrantRoles) > 0 {
			t.Errorf("made %v", r.GrantRoles)
		}
		if !has(role) || has(former) {
			t.Error("it was not renamed")
		}
		if err := store.CheckRights(t.Context(), "start-listener"); err != nil {
			t.Error(err)
		}
		testenv.Exec(t, owner, fmt.Sprintf("alter role %q rename to %q", role, former))
	}

	// Another database could have a role with that name, too.
	other := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, other), fmt.Sprintf("grant select on task to %q", former))
	if r := testenv.Migrate(t, dsn, migrate.Options{Grants: migrate.GrantsMade}); len(r.GrantRoles) != 1 || !has(former) || !has(role) {
		t.Errorf("made %v", r.GrantRoles)
	}
	testenv.Exec(t, testenv.Connect(t, other), fmt.Sprintf("revoke all on task from %q", former))
	testenv.Exec(t, owner, fmt.Sprintf("drop owned by %q; drop role %[1]q", role))
	if r, err := migrate.Run(context.Background(), dsn, migrate.Options{Grants: migrate.GrantsDropped}); err != nil || len(r.GrantRoles) != len(migrate.Daemons) || has(former) {
		t.Errorf("%+v, %v", r.GrantRoles, err)
	}
}
