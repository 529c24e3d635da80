package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// statements returns the statements of sql/queries by their names.
func statements(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := fs.Glob(os.DirFS(filepath.Join("..", "internal", "queries")), "*.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := testenv.Read(t, filepath.Join("..", "internal", "queries", file))
		for _, m := range regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`").FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = m[2]
		}
	}
	return found
}

// ofDashboard are the statements that the door's role may not run: they log in to the dashboard and act
// there.
var ofDashboard = []string{
	"BeginAction", "NextAction", "StepAction", "FailAction", "ConfirmAction", "CancelAction",
	"MakeFormKey", "FormKey", "ForgetFormKey", "BeginSession", "BoundSessions", "Session", "Sessions", "EndSession", "EndSessions",
}

// The door's role may run every statement of sql/queries, except those of the dashboard. If a statement
// fails for the owner, as without a temporary table, it fails for the role with the same error.
func TestDoorRoleRunsEveryStatement(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner, role := testenv.Connect(t, dsn), testenv.Connect(t, testenv.AsDoor(t, dsn))
	all := statements(t)
	if len(all) < 150 {
		t.Fatalf("%d statements were found", len(all))
	}
	plan := func(conn *pgconn.PgConn, name, statement string) error {
		description, err := conn.Prepare(t.Context(), "", statement, nil)
		if err != nil {
			return err
		}
		// PostgreSQL checks permissions at the start of a plan, for EXPLAIN, too.
		script := "begin; set local plan_cache_mode = force_generic_plan; prepare " + name + " as " + statement + "; explain execute " + name
		if n := len(description.ParamOIDs); n > 0 {
			script += "(" + strings.TrimSuffix(strings.Repeat("null,", n), ",") + ")"
		}
		_, err = conn.Exec(t.Context(), script).ReadAll()
		_, after := conn.Exec(t.Context(), "rollback; deallocate all").ReadAll()
		return errors.Join(err, after)
	}
	planned := 0
	for name, statement := range all {
		as, wanted := plan(role.PgConn(), name, statement), plan(owner.PgConn(), name, statement)
		if slices.Contains(ofDashboard, name) {
			if stateOf(as) != "42501" || wanted != nil {
				t.Errorf("%s, of the dashboard: %v; as the owner: %v", name, as, wanted)
			}
		} else if fmt.Sprint(as) != fmt.Sprint(wanted) {
			t.Errorf("%s: %v; as the owner: %v", name, as, wanted)
		}
		if wanted == nil {
			planned++
		}
	}
	if planned < len(all)*9/10 {
		t.Errorf("only %d of %d statements were planned", planned, len(all))
	}
}

// The door's role has no privileges beyond those of daemons.
func TestDoorRoleMayNoMore(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role := testenv.Connect(t, testenv.AsDoor(t, dsn))
	owner := testenv.Value[string](t, testenv.Connect(t, dsn), "select current_user::text")
	for _, statement := range []string{
		"create table public.mine (id int)", "create function public.mine() returns int language sql as 'select 1'",
		"create table scheduler_go.mine (id int)", "create function scheduler_go.mine() returns int language sql as 'select 1'",
		"create schema mine", "create role mine",
		"drop table task", "alter table task add column mine int", "truncate task", "drop schema scheduler_go cascade",
		"create index on task (id)", "create trigger mine before insert on task for each row execute function scheduler_go.note_graph_change()",
		"alter function scheduler_go.note_candidate() security invoker", "comment on table task is 'mine'", "alter table scheduler_go.work disable trigger all",
		"table scheduler_go.door", "table scheduler_go.sessions", "table scheduler_go.form_key", "delete from scheduler_go.sessions", "delete from scheduler_go.form_key",
		"insert into scheduler_go.sessions (key, who, credential, ends, address) values (sha256(''), 'ann', sha256(''), now() + interval '1 day', '')",
		"insert into scheduler_go.form_key (key) values (sha256(''))", "update scheduler_go.actions set state = 'running'",
		"insert into scheduler_go.actions (who, action, filter, state, below, place) values ('ann', 'disable', '{}', 'running', 1, 1)", "update scheduler_go.door set password = 'x'", "insert into scheduler_go.migrations (version_id, is_applied) values (1, true)",
		"update dbversion set version = 1", "set role " + owner, "set session authorization " + owner, "copy task to '/tmp/x'", "copy task to program 'true'",
		"alter role current_user superuser", "select pg_read_file('/etc/hostname')", "set session_replication_role = replica",
		"select pg_terminate_backend(pid) from pg_stat_activity where usename = '" + owner + "' and datname = current_database()",
	} {
		if _, err := role.Exec(t.Context(), "begin; "+statement+"; rollback"); err == nil {
			t.Errorf("%s is allowed", statement)
		} else if state := stateOf(err); state != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
		testenv.Exec(t, role, "rollback")
	}
}

func stateOf(err error) string {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	return refused.Code
}

func doorOf(t *testing.T, dsn, door string) *migrate.Door {
	t.Helper()
	store, err := db.Open(t.Context(), dsn, postgres.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	d, err := migrate.NewDoor(store.DB, door)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Opening the door again makes a new password. Closing it ends the role's sessions and drops the role. The
// role gets rights on a new table by the next migration.
func TestDoorOpensAndCloses(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	door := doorOf(t, dsn, "")
	if _, err := door.Config(t.Context(), ""); !errors.Is(err, migrate.ErrNoDoor) {
		t.Errorf("closed: %v", err)
	}
	first := testenv.AsDoor(t, dsn)
	session := testenv.Connect(t, first)
	before, err := door.Config(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	after, err := door.Config(t.Context(), "")
	if err != nil || after.User != before.User || after.Password == before.Password {
		t.Errorf("opened again: %v, as %s and %s", err, before.User, after.User)
	}
	testenv.Exec(t, session, "select from task")

	testenv.Exec(t, testenv.Connect(t, dsn), "create table scheduler_go.news (id serial); create function scheduler_go.newer() returns int language sql as 'select 1'; revoke all on function scheduler_go.newer() from public")
	testenv.Migrate(t, dsn, migrate.Options{})
	testenv.Exec(t, session, "insert into scheduler_go.news default values; select scheduler_go.newer()")

	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorClosed})
	if _, err := session.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a session goes on after the door was closed")
	}
	if _, err := door.Config(t.Context(), ""); !errors.Is(err, migrate.ErrNoDoor) {
		t.Errorf("closed again: %v", err)
	}
	if left := texts(t, testenv.Connect(t, dsn), "select rolname from pg_roles where rolname = '"+before.User+"'"); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
	if report, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: migrate.DoorClosed}); err != nil || !report.Nothing() {
		t.Errorf("closing it twice: %+v %v", report, err)
	}
}

// A removal drops the door's role, too.
func TestRemovalClosesTheDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	for _, dryRun := range []bool{true, false} {
		removal, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{DryRun: dryRun})
		if err != nil || !strings.Contains(strings.Join(removal.Removed, "\n"), "the role of the door") {
			t.Errorf("%+v %v", removal, err)
		}
	}
	if left := texts(t, testenv.Connect(t, dsn), "select rolname from pg_roles where rolname = 'scheduler_go_door_' || current_database()"); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
}

// asOwner creates a role, with a database that it owns and migrates, and returns its DSN.
func asOwner(t *testing.T, attributes string) (dsn, admin string) {
	t.Helper()
	admin = testenv.Postgres(t)
	name := "owner_" + testenv.URL(t, admin).Path[1:]
	testenv.Exec(t, testenv.Connect(t, admin), "create role "+name+" login password 'x' "+attributes)
	t.Cleanup(func() {
		testenv.Exec(t, testenv.Connect(t, admin), "reassign owned by "+name+" to current_user; drop owned by "+name+"; drop role "+name)
	})
	testenv.Exec(t, testenv.Connect(t, admin), fmt.Sprintf("do $$ begin execute format('alter database %%I owner to %s', current_database()); end $$; create extension \"uuid-ossp\"", name))
	u := testenv.URL(t, admin)
	u.User = testenv.URL(t, "postgresql://"+name+":x@h").User
	testenv.Migrate(t, u.String(), migrate.Options{})
	return u.String(), admin
}

// An owner without the right to create roles gets the statements for a role that has it. The two together
// open and close the door.
func TestDoorWithoutTheRightToMakeRoles(t *testing.T) {
	t.Parallel()
	dsn, admin := asOwner(t, "")
	step := func(action migrate.DoorAction, has string) {
		t.Helper()
		_, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: action})
		lacks, ok := errors.AsType[*migrate.OwnerError](err)
		if !ok || !strings.Contains(strings.Join(lacks.Statements, "\n"), has) {
			t.Fatalf("%v", err)
		}
		if _, err := doorOf(t, dsn, "").Config(t.Context(), ""); !errors.Is(err, migrate.ErrNoDoor) {
			t.Errorf("meanwhile: %v", err)
		}
		for _, statement := range lacks.Statements {
			testenv.Exec(t, testenv.Connect(t, admin), statement)
		}
		if report, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: action}); err != nil || report.DoorRole == "" {
			t.Fatalf("after the statements were run: %+v %v", report, err)
		}
	}
	step(migrate.DoorOpened, "create role")
	session := testenv.Connect(t, testenv.AsDoor(t, dsn))
	testenv.Exec(t, session, "select from task")
	step(migrate.DoorClosed, "drop role")
	if _, err := session.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a session goes on after the door was closed")
	}
}

// An owner with CREATEROLE opens and closes the door alone.
func TestDoorWithTheRightToMakeRoles(t *testing.T) {
	t.Parallel()
	dsn, _ := asOwner(t, "createrole")
	session := testenv.Connect(t, testenv.AsDoor(t, dsn))
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorClosed})
	if _, err := session.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a session goes on after the door was closed")
	}
}

// While all roles may create objects in the schema public, as in databases of PostgreSQL before 15, the
// door stays closed.
func TestDoorNeedsAClosedSchema(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), "grant create on schema public to public")
	_, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: migrate.DoorOpened})
	lacks, ok := errors.AsType[*migrate.OwnerError](err)
	if !ok {
		t.Fatal(err)
	}
	for _, statement := range lacks.Statements {
		testenv.Exec(t, testenv.Connect(t, dsn), statement)
	}
	testenv.AsDoor(t, dsn)
}

// A role with more privileges than daemons need is refused; one with the same is not.
func TestDoorRoleIsChecked(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	as := testenv.AsDoor(t, dsn)
	role := testenv.URL(t, as).User.Username()
	check := func(dsn string) error {
		door := doorOf(t, dsn, dsn)
		config, err := door.Config(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgconn.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		return door.Check(t.Context(), conn)
	}
	if err := check(as); err != nil {
		t.Error(err)
	}
	if err := check(dsn); !errors.Is(err, migrate.ErrBadDoor) {
		t.Errorf("the owner: %v", err)
	}
	if err := check(testenv.PgBouncer(t, as)); !errors.Is(err, migrate.ErrBadDoor) || !strings.Contains(err.Error(), "database.direct") {
		t.Errorf("a pooler: %v", err)
	}
	for _, c := range []struct{ do, undo, says string }{
		{"alter role %s createrole", "alter role %s nocreaterole", "make roles"},
		{"alter role %s createdb", "alter role %s nocreatedb", "make databases"},
		{"alter role %s replication", "alter role %s noreplication", "copy the whole server"},
		{"grant create on schema scheduler_go to %s", "revoke create on schema scheduler_go from %s", "create in the schema scheduler_go"},
		{"grant select on scheduler_go.sessions to %s", "revoke select on scheduler_go.sessions from %s", "sessions of the dashboard"},
		{"grant insert on scheduler_go.form_key to %s", "revoke insert on scheduler_go.form_key from %s", "sessions of the dashboard"},
		{"grant select on scheduler_go.door to %s", "revoke select on scheduler_go.door from %s", "password"},
		{"grant pg_read_server_files to %s", "revoke pg_read_server_files from %s", "pg_read_server_files"},
	} {
		testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf(c.do, role))
		if err := check(as); !errors.Is(err, migrate.ErrBadDoor) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.do, err)
		}
		testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf(c.undo, role))
	}
}

// A daemon with the door's role leaves the build of candidates to the owner.
func TestDoorRoleLeavesTheBuild(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role, owner := testenv.OpenLocal(t, testenv.AsDoor(t, dsn)), testenv.OpenLocal(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), "truncate listed_origins cascade")
	if kept, err := role.MaintainCandidates(t.Context()); err != nil || kept.More {
		t.Errorf("%+v %v", kept, err)
	}
	for {
		kept, err := owner.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !kept.More {
			break
		}
	}
	if kept, err := role.MaintainCandidates(t.Context()); err != nil || kept.Build.Part() != 1 {
		t.Errorf("after the build: %+v %v", kept, err)
	}
}

// The door has a role for each daemon with exactly the daemon's rights. It is created, updated and dropped
// with the door's role.
func TestDoorRoleOfADaemon(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	testenv.AsDoor(t, dsn)
	door := doorOf(t, dsn, "")
	passwords := map[string]bool{}
	as := func(daemon string) *pgconn.Config {
		t.Helper()
		config, err := door.Config(t.Context(), daemon)
		if err != nil {
			t.Fatal(err)
		}
		passwords[config.Password] = true
		return config
	}
	for _, daemon := range model.DoorDaemons {
		config := as(daemon)
		if config.User == as("").User {
			t.Fatalf("%s has the role of all", daemon)
		}
		u := testenv.URL(t, dsn)
		u.User = url.UserPassword(config.User, config.Password)
		store := testenv.OpenLocal(t, u.String())
		if err := migrate.CheckDoor(t.Context(), store.DB, daemon); err != nil {
			t.Errorf("%s: %v", daemon, err)
		}
		for _, table := range []string{"listed_origins", "origin_visit_stats", "scheduler_go.candidates"} {
			_, err := store.Pool().Exec(t.Context(), "select from "+table)
			if may := daemon != "start-listener" && (daemon != "update-metrics" || table != "scheduler_go.candidates"); (stateOf(err) == "42501") == may {
				t.Errorf("%s reads %s: %v", daemon, table, err)
			}
		}
		for _, statement := range []string{
			"update listed_origins set enabled = false", "delete from task", "table scheduler_go.door", "set role scheduler_go_door_x",
			"set role " + pgx.Identifier{as("").User}.Sanitize(), "set session authorization " + pgx.Identifier{as("").User}.Sanitize(), "create table mine (id int)",
		} {
			if strings.HasPrefix(statement, "update") && daemon == "journal-client" || strings.HasPrefix(statement, "delete") && daemon == "start-runner" {
				continue
			}
			if _, err := store.Pool().Exec(t.Context(), statement); stateOf(err) != "42501" && stateOf(err) != "22023" { // 22023: no such role
				t.Errorf("%s: %s: %v", daemon, statement, err)
			}
		}
	}
	if len(passwords) != 1 {
		t.Errorf("%d passwords", len(passwords))
	}

	// The next migrate grants missing rights of a role again, and revokes extra ones.
	role := pgx.Identifier{as("start-listener").User}.Sanitize()
	testenv.Exec(t, owner, "revoke update on task from "+role+"; grant select on listed_origins to "+role)
	testenv.Migrate(t, dsn, migrate.Options{})
	if status, err := migrate.ReadDoor(t.Context(), dsn, "start-listener", "start-runner"); err != nil || status.Wrong != nil {
		t.Errorf("%+v %v", status, err)
	}
	if testenv.Value[bool](t, owner, "select has_table_privilege('"+as("start-listener").User+"', 'listed_origins', 'select')") {
		t.Error("it may read origins")
	}

	// A missing role, as of a door opened before there were such roles, is listed; migrate --door creates
	// it.
	testenv.Exec(t, owner, "drop owned by "+role+"; drop role "+role)
	const lacks = `there is none for start-listener; the owner of the database makes it by "swh-scheduler migrate --door"`
	if _, err := door.Config(t.Context(), "start-listener"); !errors.Is(err, migrate.ErrBadDoor) || !strings.Contains(err.Error(), lacks) {
		t.Error(err)
	}
	if status, err := migrate.ReadDoor(t.Context(), dsn, "start-runner", "start-listener"); err != nil || status.Wrong == nil || !strings.Contains(status.Wrong.Error(), lacks) {
		t.Errorf("%+v %v", status, err)
	}
	if status, err := migrate.ReadDoor(t.Context(), dsn); err != nil || status.Wrong != nil {
		t.Errorf("%+v %v", status, err)
	}
	testenv.Exec(t, owner, "create role "+role+" login superuser")
	if _, err := door.Config(t.Context(), "start-listener"); !errors.Is(err, migrate.ErrBadDoor) {
		t.Errorf("somebody else's role: %v", err)
	}
	if _, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: migrate.DoorOpened}); err == nil || !strings.Contains(err.Error(), "which the door did not make") {
		t.Error(err)
	}
	testenv.Exec(t, owner, "drop role "+role)
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	as("start-listener")
	if _, err := doorOf(t, dsn, dsn).Config(t.Context(), "start-listener"); !errors.Is(err, migrate.ErrBadDoor) {
		t.Errorf("with a door of one user: %v", err)
	}
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorClosed})
	if left := texts(t, owner, "select rolname from pg_roles where rolname like 'scheduler\\_go\\_by\\_door%' and rolname like '%' || current_database()"); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
}

// A removal lists the roles that it would drop, and drops them.
func TestRemovalNamesTheRoles(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened, Grants: migrate.GrantsMade})
	var dry, done []string
	for _, o := range []migrate.RemoveOptions{{DryRun: true}, {Lose: true}} {
		removal, err := migrate.Remove(t.Context(), dsn, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range removal.Removed {
			if strings.HasPrefix(what, "the role of ") {
				done = append(done, what)
			}
		}
		if o.DryRun {
			dry, done = done, nil
		}
	}
	if len(dry) != 1+len(model.DoorDaemons)+len(migrate.Daemons) || !slices.Equal(dry, done) {
		t.Errorf("would drop %q, dropped %q", dry, done)
	}
	if left := texts(t, testenv.Connect(t, dsn), "select rolname from pg_roles where starts_with(rolname, 'scheduler_go_') and rolname like '%' || current_database()"); len(left) > 0 {
		t.Errorf("%s is left", left)
	}
}

// A door opened with another role's help before there were roles for daemons stays open. Its owner gets the
// statements for these roles.
func TestDoorGetsRolesOfDaemons(t *testing.T) {
	t.Parallel()
	dsn, admin := asOwner(t, "")
	run := func() error {
		_, err := migrate.Run(t.Context(), dsn, migrate.Options{Door: migrate.DoorOpened})
		return err
	}
	help := func(err error, n int) {
		t.Helper()
		lacks, ok := errors.AsType[*migrate.OwnerError](err)
		if !ok || len(lacks.Statements) != n {
			t.Fatalf("%v", err)
		}
		for _, statement := range lacks.Statements {
			testenv.Exec(t, testenv.Connect(t, admin), statement)
		}
	}
	help(run(), 1+2*len(model.DoorDaemons))
	if err := run(); err != nil {
		t.Fatal(err)
	}
	door := doorOf(t, dsn, "")
	config, err := door.Config(t.Context(), "journal-client")
	if err != nil {
		t.Fatal(err)
	}
	role := pgx.Identifier{config.User}.Sanitize()
	testenv.Exec(t, testenv.Connect(t, admin), "drop owned by "+role+"; drop role "+role)
	err = run()
	if all, open := door.Config(t.Context(), ""); open != nil || all.Password != config.Password {
		t.Errorf("the door has closed: %v", open)
	}
	help(err, 2)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if _, err := door.Config(t.Context(), "journal-client"); err != nil {
		t.Error(err)
	}
	_, err = migrate.Run(t.Context(), dsn, migrate.Options{Door: migrate.DoorClosed})
	help(err, 4*(1+len(model.DoorDaemons)))
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorClosed})
}
