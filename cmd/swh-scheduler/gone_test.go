package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// lister gone shows full listings on a replica. An answer to a held one needs the database, and --confirm disables
// nothing itself. explain names the listing that lacked a disabled origin.
func TestListerGone(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, `
		insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git');
		insert into listers (id, name, instance_name, current_state, updated) values
			('00000000-0000-4000-8000-000000000001', 'gitweb', 'a.example', '{}', now()), ('00000000-0000-4000-8000-000000000002', 'gitweb', 'b.example', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-4000-8000-000000000001', 'https://a.example/' || n, 'git', '{}', n > 1, '2024-01-01Z' from generate_series(1, 3) n;
		insert into scheduler_go.full_listings (lister_id, run, ended, cutoff, state, enabled, missing, allowed)
			values ('00000000-0000-4000-8000-000000000001', 7, '2024-02-02T03:04:05Z', '2024-02-02Z', 'held', 2, 2, 1);
		insert into scheduler_go.gone_origins (lister_id, url, visit_type, ended, disabled)
			values ('00000000-0000-4000-8000-000000000001', 'https://a.example/1', 'git', '2024-01-03T03:04:05Z', '2024-01-03T03:06:00Z')`)
	state := func() string {
		return testenv.Value[string](t, testenv.Connect(t, dsn), "select state || (select count(*) from listed_origins where enabled) from scheduler_go.full_listings")
	}
	replica := configFile(t, `scheduler: {cls: postgresql, db: "postgresql://u@127.0.0.1:1/x"}
database: {replica: "`+dsn+`"}
gone_origins: {gitweb: {}}
`)
	for _, c := range []struct {
		args   []string
		code   int
		stdout []string
		stderr string
		state  string
	}{
		{[]string{"-C", replica, "lister", "gone"}, 0, []string{"a.example", "held"}, "", "held2"},
		{[]string{"-C", replica, "lister", "gone", "gitweb/a.example"}, 0, []string{"held", "https://a.example/2", "https://a.example/3"}, "", "held2"},
		{[]string{"-C", replica, "lister", "gone", "gitweb/a.example", "--limit", "1", "--output", "json"}, 0, []string{`"missing": 2`, "https://a.example/2"}, "", "held2"},
		{[]string{"-C", replica, "lister", "gone", "gitweb/a.example", "--confirm"}, 1, nil, "port=1", "held2"},
		{[]string{"-d", dsn, "lister", "gone", "--confirm"}, 2, nil, "Missing argument 'NAME/INSTANCE'", "held2"},
		{[]string{"-d", dsn, "lister", "gone", "gitweb/a.example", "--confirm", "--dismiss"}, 2, nil, "--dismiss", "held2"},
		{[]string{"-d", dsn, "lister", "gone", "gitweb/b.example"}, 0, []string{"no rule for gitweb/b.example (gone_origins), so no origin of it is disabled"}, "", "held2"},
		{[]string{"-d", dsn, "lister", "gone", "gitweb/c.example"}, 1, nil, `"gitweb/c.example"`, "held2"},
		{[]string{"-d", dsn, "lister", "gone", "gitweb/a.example", "--confirm"}, 0, []string{"A maintenance job disables 2 origins of gitweb/a.example"}, "", "disabling2"},
		{[]string{"-d", dsn, "lister", "gone", "gitweb/a.example", "--dismiss"}, 1, nil, "no listing of gitweb/a.example is held", "disabling2"},
		{[]string{"-d", dsn, "explain", "https://a.example/1"}, 0, []string{"It was not in the listing that ended at 2024-01-03"}, "", "disabling2"},
	} {
		r := ours(t, c.args...)
		ok := r.code == c.code && strings.Contains(r.stderr, c.stderr)
		for _, text := range c.stdout {
			ok = ok && strings.Contains(r.stdout, text)
		}
		if !ok {
			t.Errorf("%q: %+v", c.args, r)
		}
		if got := state(); got != c.state {
			t.Errorf("%q: state and enabled origins are %s, want %s", c.args, got, c.state)
		}
	}
}
