package migrate_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
)

// Every function with its owner's rights sets its search path, with the caller's temporary schema last. Those of
// byNoPath need no path.
func TestDefinersFixTheirSearchPath(t *testing.T) {
	t.Parallel()
	conn := testenv.Connect(t, testenv.Database(t))
	if found := texts(t, conn, definers); len(found) < 6 {
		t.Errorf("%v: the query finds too little", found)
	}
	found := testenv.Column[string](t, conn, definers+` and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false) order by 1`)
	if diff := cmp.Diff(byNoPath, found); diff != "" {
		t.Errorf("functions that are security definer, and don't set search_path = pg_catalog, pg_temp:\n%s", diff)
	}
}

// byNoPath are functions with their owner's rights whose text looks nothing up by the search path. They run for
// each row that the Python scheduler writes, and setting the path costs as much as they do.
var byNoPath = []string{"scheduler_go.note_listed_origin()", "scheduler_go.note_visit_stats()"}

// Functions without a search path name the schema of each type, operator and function, and have no construct
// whose operator PostgreSQL finds by the path.
func TestDefinersResolveNothingByThePath(t *testing.T) {
	t.Parallel()
	conn := testenv.Connect(t, testenv.Database(t))
	for _, name := range byNoPath {
		body := testenv.Value[string](t, conn, "select prosrc from pg_proc where oid = $1::text::regprocedure", name)
		if found := byPath(body); len(found) > 0 {
			t.Errorf("%s looks up by the search path: %q", name, found)
		}
	}
	for body, want := range map[string]string{
		"if old.a operator(pg_catalog.=) new.a or (old.b is null) then": "",
		"noted := pg_catalog.nextval('scheduler_go.s');":                "",
		"insert into scheduler_go.c (url) values (old.url);":            "",
		"if old.a = new.a then":                                         "=",
		"if old.a operator(public.=) new.a then":                        "operator(public.=)",
		"if old.a is not distinct from new.a then":                      "distinct",
		"if old.a in (select) then":                                     "in in (",
		"noted := nextval('scheduler_go.s');":                           "nextval (",
		"noted := pg_catalog.nextval('s'::regclass);":                   "::",
		"declare noted int8; begin":                                     "int8",
		"insert into candidate_changes values (1);":                     "into candidate_changes",
		"perform x from candidates;":                                    "from candidates",
	} {
		if got := strings.Join(byPath(body), " "); got != want {
			t.Errorf("%s: found %q, want %q", body, got, want)
		}
	}
}

var (
	textOrComment  = regexp.MustCompile(`'[^']*'|--[^\n]*`)
	namedOperator  = regexp.MustCompile(`operator\(pg_catalog\.[^)]+\)`)
	pathConstructs = regexp.MustCompile(`operator\([^)]*\)|\b(distinct|in|like|ilike|similar|between|any|all|some|case|nullif|cast|order|group|using)\b|:=|[-+*/<>=~!@#%^&|?:]+`)
	calledByName   = regexp.MustCompile(`\b([a-z_][\w.]*)\s*\(`)
	declared       = regexp.MustCompile(`(?s)\bdeclare\b(.*?)\bbegin\b`)
	typed          = regexp.MustCompile(`\w+\s+([\w.]+)\s*;`)
	relations      = regexp.MustCompile(`\b(?:into|from|join|update)\s+[\w.]+`)
)

// byPath returns what a function's text has PostgreSQL look up by the search path.
func byPath(body string) (found []string) {
	body = namedOperator.ReplaceAllString(textOrComment.ReplaceAllString(body, " "), " ")
	for _, c := range pathConstructs.FindAllString(body, -1) {
		if c != ":=" {
			found = append(found, c)
		}
	}
	for _, c := range calledByName.FindAllStringSubmatch(body, -1) {
		if !strings.Contains(c[1], ".") && !slices.Contains([]string{"if", "and", "or", "not", "values", "operator"}, c[1]) {
			found = append(found, c[1]+" (")
		}
	}
	for _, d := range declared.FindAllStringSubmatch(body, -1) {
		for _, c := range typed.FindAllStringSubmatch(d[1], -1) {
			if !strings.Contains(c[1], ".") {
				found = append(found, c[1])
			}
		}
	}
	for _, r := range relations.FindAllString(body, -1) {
		if !strings.Contains(r, ".") && !slices.Contains(found, "distinct") {
			found = append(found, r)
		}
	}
	return found
}

// definers are the functions that run with their owner's rights.
const definers = `select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = pronamespace
	where prosecdef and nspname not in ('pg_catalog', 'information_schema')`

// Only their owner may execute them. PostgreSQL lets all roles execute a new function unless its migration
// revokes that: default privileges of a schema can't.
func TestDefinersAreTheirOwners(t *testing.T) {
	t.Parallel()
	for _, name := range texts(t, testenv.Connect(t, testenv.Database(t)), definers+` and exists
		(select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)`) {
		t.Errorf("%s is security definer, and whoever uses the schema may execute it: revoke execute on function %[1]s from public", name)
	}
}

// A role that may read our schema can't attach our triggers to a table of its own, which would write to
// ours.
func TestDefinersAreNotAttached(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role := "mallory_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	testenv.Exec(t, testenv.Connect(t, dsn), `
		create role `+role+`;
		create schema evil authorization `+role+`;
		grant usage on schema scheduler_go to `+role+`;
		grant select on all tables in schema scheduler_go to `+role+`;
		set role `+role+`;
		create table evil.mine (name text, instance_name text, last_listing_finished_at timestamptz)`)
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, dsn), "drop owned by "+role+"; drop role "+role) })
	conn := testenv.Connect(t, dsn)
	triggers := testenv.Column[string](t, conn, definers+" and prorettype = 'trigger'::regtype")
	if len(triggers) < 5 {
		t.Errorf("%v: the query finds too little", triggers)
	}
	testenv.Exec(t, conn, "set role "+role)
	for _, name := range triggers {
		_, err := conn.Exec(t.Context(), "create trigger t after insert on evil.mine for each row execute function "+name)
		if err == nil || !strings.Contains(err.Error(), "permission denied for function") {
			t.Errorf("%s on a stranger's table: %v", name, err)
		}
	}
}

// A role that may write the Python scheduler's tables, and nothing else, can write them as if there were no
// triggers. The triggers record the changes all the same.
func TestWritersNeedNoRightsOnOurs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role := "writer_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	testenv.Exec(t, testenv.Connect(t, dsn), `
		create role `+role+`;
		grant select, insert, update, delete on all tables in schema public to `+role+`;
		grant usage on all sequences in schema public to `+role)
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, dsn), "drop owned by "+role+"; drop role "+role) })
	testenv.Exec(t, testenv.Connect(t, dsn), `
		set role `+role+`;
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', 'https://' || n, 'git', '{}', true, now() from generate_series(1, 3) n;
		update listed_origins set last_update = now() where url = 'https://1';
		delete from listed_origins where url = 'https://2';
		insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) values ('https://1', 'git', now(), 'successful');
		update origin_visit_stats set last_scheduled = now();
		update listers set last_listing_finished_at = now();
		insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor) values ('t', '', 't', '1 day', '1 day', '1 day', 1);
		insert into task (type, arguments, next_run, current_interval, policy, status)
			select 't', '{}', now(), '1 day', 'oneshot', 'next_run_not_scheduled' from generate_series(1, 2);
		insert into task_run (task, backend_id, status) select id, 'r' || id, 'scheduled' from task;
		update task_run set status = 'eventful', ended = now() where id = 1;
		select swh_scheduler_end_task_run('r2', 'failed', '{}', now());
		delete from task_run where id = 1;
		delete from task where id not in (select task from task_run);
		update task set status = 'disabled'`)
	conn := testenv.Connect(t, dsn)
	for what, query := range map[string]string{
		"changes of origins": "select count(*) from scheduler_go.candidate_changes",
		"listings":           "select count(*) from scheduler_go.listings",
	} {
		if n := testenv.Value[int](t, conn, query); n == 0 {
			t.Errorf("no %s were noted", what)
		}
	}
}

// A role that may write listed origins and create objects, in a schema of its own or temporary ones, can't
// make our functions run its functions with the owner's rights.
func TestDefinersRunNobodysCode(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role := "mallory_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	testenv.Exec(t, testenv.Connect(t, dsn), `
		create role `+role+`;
		create schema evil authorization `+role+`;
		grant all on listed_origins, listers, origin_visit_stats to `+role+`;
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-000000000001', 'https://a', 'git', '{}', true, now());
		create table public.ran (who text);
		grant insert on public.ran to public`)
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, dsn), "drop owned by "+role+"; drop role "+role) })
	hostile := ""
	for i, of := range []string{"boolean", "text", "uuid", "int4", "int8", "timestamptz", "bytea", "public.last_visit_status"} {
		for j, operator := range []string{"=", "<>", "%"} {
			hostile += fmt.Sprintf(`
		create function evil.f%[1]d_%[2]d(%[3]s, %[3]s) returns boolean language sql as 'insert into public.ran values (current_user); select false';
		create operator evil.%[4]s (leftarg = %[3]s, rightarg = %[3]s, function = evil.f%[1]d_%[2]d);`, i, j, of, operator)
		}
	}
	testenv.Exec(t, testenv.Connect(t, dsn), `
		set role `+role+`;`+hostile+`
		create function evil.nextval(regclass) returns bigint language sql as
			'insert into public.ran values (current_user); select pg_catalog.nextval($1)';
		create function evil.fine(pg_catalog.text) returns boolean language sql as
			'insert into public.ran values (current_user); select true';
		create domain pg_temp.text as pg_catalog.text check (evil.fine(value));
		set search_path = evil, pg_catalog, public;
		update public.listed_origins set url = 'https://b';
		insert into public.listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-000000000001', 'https://c', 'git', '{}', true, now());
		update public.listed_origins set last_update = pg_catalog.now(), is_fork = true;
		insert into public.origin_visit_stats (url, visit_type) values ('https://a', 'git');
		update public.origin_visit_stats set last_visit = pg_catalog.now(), last_visit_status = 'failed', last_scheduled = pg_catalog.now();
		update public.origin_visit_stats set url = 'https://b', next_visit_queue_position = 1;
		update public.listers set last_listing_finished_at = now()`)
	if n := testenv.Value[int](t, testenv.Connect(t, dsn), "select count(*) from scheduler_go.candidate_changes"); n < 8 {
		t.Errorf("%d changes were recorded, want each", n)
	}
	for _, who := range texts(t, testenv.Connect(t, dsn), "select distinct who from public.ran") {
		if who != "("+role+")" {
			t.Errorf("%s ran a function of %s", who, role)
		}
	}
}
