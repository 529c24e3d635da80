package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// lister weight shows and sets the weights of listers; explain names a weight other than 1.
func TestListerWeight(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, `
		insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git');
		insert into listers (id, name, instance_name, current_state, updated) values
			('00000000-0000-4000-8000-000000000001', 'gitweb', 'a.example', '{}', now()), ('00000000-0000-4000-8000-000000000002', 'gitweb', 'b.example', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-4000-8000-000000000001', 'https://a.example/1', 'git', '{}', true, '2024-01-01Z');
		insert into scheduler_go.listings (lister_id, finished) values ('00000000-0000-4000-8000-000000000001', now())`)
	execute(t, dsn, "insert into scheduler_go.freshness_control (visit_type, longest, cost, changes, days, threshold, applied) values ('git', 1e7, 60, 1, 30, 1e4, 1e4)")
	execute(t, dsn, "insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot) values ('https://a.example/1', 'git', '2024-01-01Z', '2024-01-01Z', 'successful', 'x')")
	replica := configFile(t, `scheduler: {cls: postgresql, db: "postgresql://u@127.0.0.1:1/x"}
database: {replica: "`+dsn+`"}
`)
	policy := configFile(t, `scheduler: {cls: postgresql, db: "`+dsn+`"}
scheduling_policy: {default: [{policy: freshness, weight: 1}]}
`)
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"-C", replica, "lister", "weight"}, 0, "All listers have the weight 1.", ""},
		{[]string{"-C", replica, "lister", "weight", "gitweb/a.example"}, 0, "The weight of gitweb/a.example is 1.", ""},
		{[]string{"-C", replica, "lister", "weight", "gitweb/a.example", "--set", "8"}, 1, "", "port=1"},
		{[]string{"-d", dsn, "lister", "weight", "--set", "8"}, 2, "", "Missing argument 'NAME/INSTANCE'"},
		{[]string{"-d", dsn, "lister", "weight", "gitweb", "--set", "8"}, 2, "", `"gitweb" has no slash`},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/a.example", "--set", "x"}, 2, "", "--set"},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/a.example", "--set", "0"}, 1, "", "between 0.001 and 1000, not 0"},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/a.example", "--set", "NaN"}, 1, "", "between 0.001 and 1000, not NaN"},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/b.example", "--set", "8"}, 1, "", "no listing of gitweb/b.example has ended yet"},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/c.example"}, 1, "", `"gitweb", instance "c.example"`},
		{[]string{"-d", dsn, "lister", "weight", "gitweb/a.example", "--set", "0.1"}, 0, "The weight of gitweb/a.example is 0.1.", ""},
		{[]string{"-d", dsn, "lister", "weight", "--output", "json"}, 0, `"weight": 0.1`, ""},
		{[]string{"-d", dsn, "lister", "weight"}, 0, "gitweb/a.example", ""},
		{[]string{"-C", policy, "explain", "https://a.example/1"}, 0, "Its lister has the weight 0.1", ""},
	} {
		r := ours(t, c.args...)
		if r.code != c.code || !strings.Contains(r.stdout, c.stdout) || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
}
