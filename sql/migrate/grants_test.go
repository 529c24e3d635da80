package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/migrate"
)

// withGrants creates the roles of daemons of a database until the test ends, and returns the database's
// name.
func withGrants(t *testing.T, dsn string) (database string) {
	t.Helper()
	made := testenv.Migrate(t, dsn, migrate.Options{Grants: migrate.GrantsMade})
	if len(made.GrantRoles) != len(migrate.Daemons) {
		t.Errorf("made %v", made.GrantRoles)
	}
	t.Cleanup(func() {
		if _, err := migrate.Run(context.Background(), dsn, migrate.Options{Grants: migrate.GrantsDropped}); err != nil {
			t.Error(err)
		}
	})
	return testenv.Value[string](t, testenv.Connect(t, dsn), "select current_database()")
}

// A user with a daemon's role lacks no right of the daemon. Without one of its rights, it lacks exactly
// that one.
func TestGrantedRolesLackNothing(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	database := withGrants(t, dsn)
	testenv.Exec(t, owner, "revoke usage on schema public from public; revoke temp on database \""+database+"\" from public")
	for _, daemon := range migrate.Daemons {
		user, store := withRole(t, dsn)
		group := migrate.DaemonRole(daemon, database)
		testenv.Exec(t, owner, fmt.Sprintf("grant %q to %q", group, user))
		if err := store.CheckRights(t.Context(), daemon); err != nil {
			t.Errorf("%s: %v", daemon, err)
		}
		if err := store.CheckVersion(t.Context()); err != nil {
			t.Errorf("%s: %v", daemon, err)
		}
		table := map[string]string{"update-metrics": "scheduler_metrics", "dashboard": "scheduler_go.actions"}[daemon]
		if table == "" {
			table = "scheduler_go.walks"
		}
		testenv.Exec(t, owner, fmt.Sprintf("revoke update on %s from %q", table, group))
		var missing *migrate.RightsError
		if err := store.CheckRights(t.Context(), daemon); !errors.As(err, &missing) || strings.Count(err.Error(), "grant ") != 1 || !strings.Contains(err.Error(), table) {
			t.Errorf("%s without a right: %v", daemon, err)
		}
	}

	// The next migrate grants it again, and revokes extra rights.
	group := migrate.DaemonRole("start-listener", database)
	testenv.Exec(t, owner, fmt.Sprintf("grant delete on listed_origins to %q", group))
	if again := testenv.Migrate(t, dsn, migrate.Options{}); len(again.GrantRoles) > 0 || !again.Nothing() {
		t.Errorf("did %+v", again)
	}
	for what, want := range map[string]bool{"'scheduler_go.walks', 'update'": true, "'listed_origins', 'delete'": false} {
		if got := testenv.Value[bool](t, owner, fmt.Sprintf("select has_table_privilege('%s', %s)", group, what)); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// Each daemon that drains changes of candidates may set aside an origin that PostgreSQL refuses.
func TestKeepersSetOriginsAside(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	database := withGrants(t, dsn)
	sqltest.ListN(t, testenv.OpenLocal(t, dsn), 3)
	testenv.Exec(t, owner, `create function refuse() returns trigger language plpgsql as $$ begin raise interval_field_overflow; end $$;
		create trigger refuse before insert or update on scheduler_go.candidates for each row when (new.url like '%/2') execute function refuse()`)
	for _, daemon := range []string{"start-runner", "start-runner-first-visits", "schedule-recurrent", "journal-client", "rpc-serve"} {
		user, store := withRole(t, dsn)
		testenv.Exec(t, owner, fmt.Sprintf("grant %q to %q", migrate.DaemonRole(daemon, database), user))
		testenv.Exec(t, owner, "delete from scheduler_go.set_aside_origins; update listed_origins set last_seen = last_seen + interval '1 s', last_update = now()")
		if _, err := store.MaintainCandidates(t.Context()); err != nil {
			t.Errorf("%s: %v", daemon, err)
		}
		if n := testenv.Value[int](t, owner, "select count(*) from scheduler_go.set_aside_origins"); n != 1 {
			t.Errorf("%s: %d origins are set aside", daemon, n)
		}
	}
}

// The test lists what each role may write, independently of the table of rights.
func TestGrantedRolesMayNoMore(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	database := withGrants(t, dsn)
	for daemon, denied := range map[string]string{
		"start-runner": "insert on listed_origins, update on listed_origins, insert on listers, insert on task, insert on scheduler_go.rejected_events, insert on scheduler_go.graphs",
		"start-listener": "insert on task, delete on task, insert on task_run, update on listed_origins, insert on listed_origins, update on origin_visit_stats, " +
			"select on listed_origins, select on origin_visit_stats, select on visit_scheduler_queue_position, select on scheduler_go.candidates, " +
			"select on scheduler_go.candidate_changes, select on scheduler_go.set_aside_origins, select on scheduler_go.freshness, delete on scheduler_go.deliveries, " +
			"insert on scheduler_go.work, insert on scheduler_go.hoster_claims, update on scheduler_go.graph_tasks",
		"journal-client":            "update on task, update on task_run, insert on listed_origins, update on listers, insert on scheduler_go.work, insert on scheduler_go.share_charges",
		"schedule-recurrent":        "update on task, insert on task_run, update on listed_origins, insert on scheduler_go.ended",
		"start-runner-first-visits": "update on task, update on listed_origins, insert on scheduler_go.freshness",
		"rpc-serve":                 "delete on task, delete on listed_origins, insert on scheduler_go.work, insert on scheduler_go.held_visits",
		"dashboard":                 "insert on task, delete on task, update on listed_origins, insert on scheduler_go.graphs, insert on scheduler_go.work, update on scheduler_go.keeper",
		"update-metrics":            "update on task, select on scheduler_go.work, update on listed_origins, insert on listed_origins",
	} {
		denied += ", select on scheduler_go.door, insert on scheduler_go.migrations, update on scheduler_go.compatible, truncate on task, trigger on task"
		for what := range strings.SplitSeq(denied, ", ") {
			right, table, _ := strings.Cut(what, " on ")
			if testenv.Value[bool](t, owner, fmt.Sprintf("select has_table_privilege('%s', '%s', '%s')", migrate.DaemonRole(daemon, database), table, right)) {
				t.Errorf("%s may %s", daemon, what)
			}
		}
		for _, create := range []string{"public", "scheduler_go"} {
			if testenv.Value[bool](t, owner, fmt.Sprintf("select has_schema_privilege('%s', '%s', 'create') and current_setting('server_version_num')::int >= 150000", migrate.DaemonRole(daemon, database), create)) {
				t.Errorf("%s may create in %s", daemon, create)
			}
		}
	}
}

// A role without grants can't execute our functions, in a new database and in an older one.
func TestPublicExecutesNothing(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	const open = `select p.oid::regprocedure::text from pg_proc p, lateral aclexplode(coalesce(proacl, acldefault('f', proowner)))
		where pronamespace = 'scheduler_go'::regnamespace and grantee = 0`
	if found := texts(t, owner, open); len(found) > 0 {
		t.Errorf("PUBLIC may execute %v", found)
	}
	testenv.Exec(t, owner, "grant execute on all functions in schema scheduler_go to public")
	if found := texts(t, owner, open); len(found) < 20 {
		t.Errorf("%v: the query finds too little", found)
	}
	testenv.Migrate(t, dsn, migrate.Options{})
	if found := texts(t, owner, open); len(found) > 0 {
		t.Errorf("PUBLIC may execute %v", found)
	}
}

// The role of RPC servers reads the door's password while the door is open, in either order of creation. No
// other role does.
func TestRPCServersReadTheDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	t.Cleanup(func() {
		if _, err := migrate.Run(context.Background(), dsn, migrate.Options{Door: migrate.DoorClosed}); err != nil {
			t.Error(err)
		}
	})
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	database := withGrants(t, dsn)
	read := func() (who []string) {
		for _, daemon := range migrate.Daemons {
			if testenv.Value[bool](t, owner, fmt.Sprintf("select has_table_privilege('%s', 'scheduler_go.door', 'select')", migrate.DaemonRole(daemon, database))) {
				who = append(who, daemon)
			}
			if testenv.Value[bool](t, owner, fmt.Sprintf("select has_table_privilege('%s', 'scheduler_go.door', 'insert, update, delete')", migrate.DaemonRole(daemon, database))) {
				t.Errorf("%s writes the door's password", daemon)
			}
		}
		return who
	}
	for _, step := range []struct {
		door migrate.DoorAction
		want string
	}{{migrate.DoorKept, "[rpc-serve]"}, {migrate.DoorClosed, "[]"}, {migrate.DoorKept, "[]"}, {migrate.DoorOpened, "[rpc-serve]"}} {
		testenv.Migrate(t, dsn, migrate.Options{Door: step.door})
		if got := fmt.Sprint(read()); got != step.want {
			t.Errorf("after %v: %s read it, want %s", step.door, got, step.want)
		}
	}
	user, store := withRole(t, dsn)
	testenv.Exec(t, owner, fmt.Sprintf("grant %q to %q", migrate.DaemonRole("rpc-serve", database), user))
	door, err := migrate.NewDoor(store.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, daemon := range []string{"", "start-listener"} {
		if way, err := door.Config(t.Context(), daemon); err != nil || way.Password == "" {
			t.Errorf("%q: %v", daemon, err)
		}
	}
}

// A user who may not create roles gets the statements for another role to run. Roles of others don't
// change.
func TestGrantsWithoutTheRight(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	owner := testenv.Connect(t, dsn)
	database := testenv.Value[string](t, owner, "select current_database()")
	role := "owner_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	testenv.Exec(t, owner, fmt.Sprintf(`create role %[1]s login;
		grant create on database %[2]q to %[1]s;
		do $$ declare o record; begin
			for o in select format('alter %%s %%s owner to %[1]s', case relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, c.oid::regclass) as s
				from pg_class c where relnamespace in ('public'::regnamespace, 'scheduler_go'::regnamespace) and relkind in ('r', 'v', 'p')
			loop execute o.s; end loop;
			for o in select format('alter function %%s owner to %[1]s', oid::regprocedure) as s from pg_proc where pronamespace = 'scheduler_go'::regnamespace
			loop execute o.s; end loop;
			execute 'alter schema scheduler_go owner to %[1]s'; execute 'alter schema public owner to %[1]s';
			for o in select format('alter sequence %%s owner to %[1]s', c.oid::regclass) as s from pg_class c where relnamespace = 'scheduler_go'::regnamespace and relkind = 'S'
				and not exists (select from pg_depend where objid = c.oid and deptype in ('a', 'i')) loop execute o.s; end loop;
		end $$`, role, database))
	t.Cleanup(func() {
		testenv.Exec(t, testenv.Connect(t, dsn), "reassign owned by "+role+" to current_user; drop owned by "+role+"; drop role "+role)
	})
	u := testenv.URL(t, dsn)
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	as := u.String()
	var lacking *migrate.OwnerError
	if _, err := migrate.Run(t.Context(), as, migrate.Options{Grants: migrate.GrantsMade}); !errors.As(err, &lacking) || lacking.Then != "--grants" ||
		len(lacking.Statements) != 2*len(migrate.Daemons) {
		t.Fatal(err)
	}
	for _, statement := range lacking.Statements {
		testenv.Exec(t, owner, statement)
	}
	if r, err := migrate.Run(t.Context(), as, migrate.Options{Grants: migrate.GrantsMade}); err != nil || len(r.GrantRoles) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !testenv.Value[bool](t, owner, fmt.Sprintf("select has_table_privilege('%s', 'scheduler_go.walks', 'update')", migrate.DaemonRole("start-listener", database))) {
		t.Error("no rights")
	}
	if _, err := migrate.Run(t.Context(), as, migrate.Options{Grants: migrate.GrantsDropped}); !errors.As(err, &lacking) || len(lacking.Statements) != len(migrate.Daemons) {
		t.Error(err)
	}
	for _, statement := range lacking.Statements {
		testenv.Exec(t, owner, statement)
	}

	others := migrate.DaemonRole("dashboard", database)
	testenv.Exec(t, owner, fmt.Sprintf("create role %q", others))
	defer testenv.Exec(t, owner, fmt.Sprintf("drop role %q", others))
	if _, err := migrate.Run(t.Context(), dsn, migrate.Options{Grants: migrate.GrantsMade}); err == nil || !strings.Contains(err.Error(), others) {
		t.Error(err)
	}
	if r, err := migrate.Run(t.Context(), dsn, migrate.Options{Grants: migrate.GrantsDropped}); err != nil || slices.Contains(r.GrantRoles, others) {
		t.Errorf("%+v, %v", r, err)
	}
}

// The documentation has this table of rights.
func TestTableOfRights(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	write := func(who string, ours, peers []string) {
		code := func(names []string) string { // sorted by table
			var tables []string
			for _, name := range names {
				table, right, _ := strings.Cut(name, " ")
				if n := len(tables); n > 0 && strings.HasPrefix(tables[n-1], "`"+table+"` ") {
					tables[n-1] += right
				} else {
					tables = append(tables, "`"+table+"` "+right)
				}
			}
			return strings.Join(tables, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", who, code(peers), code(ours))
	}
	shared := map[string]bool{} // by daemons that do all maintenance
	for _, name := range migrate.Written("scheduler_go", "journal-client") {
		shared[name] = true
		for _, daemon := range migrate.Daemons {
			if daemon != "dashboard" && daemon != "update-metrics" && daemon != "start-listener" && !slices.Contains(migrate.Written("scheduler_go", daemon), name) {
				delete(shared, name)
			}
		}
	}
	write("all but `start-listener` and the last two", slices.DeleteFunc(migrate.Written("scheduler_go", "journal-client"), func(name string) bool { return !shared[name] }), nil)
	for _, daemon := range migrate.Daemons {
		ours := migrate.Written("scheduler_go", daemon)
		if slices.Contains(ours, "keeper I") && daemon != "start-listener" {
			ours = slices.DeleteFunc(ours, func(name string) bool { return shared[name] })
		}
		write("`"+daemon+"`", ours, migrate.Written("public", daemon))
	}
	if text := string(testenv.Read(t, "../../docs/how-to/secure.md")); !strings.Contains(text, b.String()) {
		t.Errorf("docs/how-to/secure.md lacks\n%s", b.String())
	}
}
