package db_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
)

// Every function that runs with its owner's rights fixes where it looks names up, with
// the caller's temporary schema last.
func TestDefinersFixTheirSearchPath(t *testing.T) {
	t.Parallel()
	conn := connect(t, testenv.Database(t))
	const definers = `select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = pronamespace
		where prosecdef and nspname not in ('pg_catalog', 'information_schema')`
	if found := texts(t, conn, definers); len(found) < 6 {
		t.Errorf("%v: the query finds too little", found)
	}
	for _, name := range texts(t, conn, definers+` and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)`) {
		t.Errorf("%s is security definer, and doesn't set search_path = pg_catalog, pg_temp", name)
	}
}

// Who may write listed origins and make objects in a schema of his own, or temporary ones,
// can't have the owner of our functions run a function of his.
func TestDefinersRunNobodysCode(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role := "mallory_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, dsn, `
		create role `+role+`;
		create schema evil authorization `+role+`;
		grant all on listed_origins, listers to `+role+`;
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-000000000001', 'https://a', 'git', '{}', true, now());
		create table public.ran (who text);
		grant insert on public.ran to public`)
	t.Cleanup(func() { execute(t, dsn, "drop owned by "+role+"; drop role "+role) })
	execute(t, dsn, `
		set role `+role+`;
		create function evil.differs(pg_catalog.text, pg_catalog.text) returns boolean language sql as
			'insert into public.ran values (current_user); select $1 operator(pg_catalog.<>) $2';
		create operator evil.<> (leftarg = pg_catalog.text, rightarg = pg_catalog.text, function = evil.differs);
		create function evil.fine(pg_catalog.text) returns boolean language sql as
			'insert into public.ran values (current_user); select true';
		create domain pg_temp.text as pg_catalog.text check (evil.fine(value));
		set search_path = evil, pg_catalog, public;
		update public.listed_origins set url = 'https://b';
		insert into public.listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-000000000001', 'https://c', 'git', '{}', true, now());
		update public.listers set last_listing_finished_at = now()`)
	for _, who := range texts(t, connect(t, dsn), "select distinct who from public.ran") {
		if who != "("+role+")" {
			t.Errorf("%s ran a function of %s", who, role)
		}
	}
}
