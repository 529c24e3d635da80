package origins_test

import (
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Triggers record the origins whose candidates a write may outdate, and no others.
func TestWhatWritersNote(t *testing.T) {
	t.Parallel()
	conn := testenv.Connect(t, testenv.Database(t))
	const lister, other = "'11111111-1111-1111-1111-111111111111'", "'22222222-2222-2222-2222-222222222222'"
	for _, id := range []string{lister, other} {
		testenv.Exec(t, conn, "insert into listers (id, name, instance_name, current_state, updated) values ("+id+", 'l', "+id+", '{}', now())")
	}
	const origin = "insert into listed_origins (lister_id, visit_type, extra_loader_arguments, last_seen, url, enabled) values (" + lister + ", 'git', '{}', now(), "
	for _, c := range []struct{ name, before, statement, want string }{
		{"an origin is listed", "", origin + "'a', true)", "git a"},
		{"one that is disabled", "", origin + "'a', false)", ""},
		{"nothing changed", origin + "'a', true)", "update listed_origins set last_seen = now(), last_update = last_update", ""},
		{"what no candidate has", origin + "'a', true)", `update listed_origins set extra_loader_arguments = '{"b": 1}', last_seen = '2030-01-01', forked_from_url = 'x'`, ""},
		{"an update is known", origin + "'a', true)", "update listed_origins set last_update = now()", "git a"},
		{"of one that is disabled", origin + "'a', false)", "update listed_origins set last_update = now()", ""},
		{"no update is known any more", origin + "'a', true); update listed_origins set last_update = now()", "update listed_origins set last_update = null", "git a"},
		{"it is disabled", origin + "'a', true)", "update listed_origins set enabled = false", "git a"},
		{"it is enabled", origin + "'a', false)", "update listed_origins set enabled = true", "git a"},
		{"it is a fork", origin + "'a', true)", "update listed_origins set is_fork = true", "git a"},
		{"it isn't", origin + "'a', true)", "update listed_origins set is_fork = false", "git a"},
		{"it was seen before", origin + "'a', true)", "update listed_origins set first_seen = '2000-01-01'", "git a"},
		{"another URL", origin + "'a', true)", "update listed_origins set url = 'b'", "git a, git b"},
		{"another visit type", origin + "'a', true)", "update listed_origins set visit_type = 'svn'", "git a, svn a"},
		{"another lister", origin + "'a', true)", "update listed_origins set lister_id = " + other, "git a"},
		{"as the Python scheduler writes a change", origin + "'a', true)", origin + "'a', true) on conflict (lister_id, url, visit_type) do update set enabled = excluded.enabled, last_update = now()", "git a"},
		{"as it writes what didn't change", origin + "'a', true)", origin + "'a', true) on conflict (lister_id, url, visit_type) do update set enabled = excluded.enabled, last_seen = excluded.last_seen", ""},
		{"it is gone", origin + "'a', true)", "delete from listed_origins", "git a"},
		{"one that was disabled", origin + "'a', false)", "delete from listed_origins", ""},

		{"it is visited", "", "insert into origin_visit_stats (url, visit_type, last_visit) values ('a', 'git', now())", "git a (visits)"},
		{"again", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set last_visit = now()", "git a (visits)"},
		{"with success", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set last_successful = now()", "git a (visits)"},
		{"without", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set last_visit_status = 'failed'", "git a (visits)"},
		{"it is scheduled", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set last_scheduled = now()", "git a (visits)"},
		{"it moves in the queue", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set next_visit_queue_position = 1", "git a (visits)"},
		{"its first snapshot", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", `update origin_visit_stats set last_snapshot = '\x00'`, "git a (visits)"},
		{"another snapshot", `insert into origin_visit_stats (url, visit_type, last_snapshot) values ('a', 'git', '\x00')`, `update origin_visit_stats set last_snapshot = '\x01'`, ""},
		{"what no candidate has of visits", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set next_position_offset = 5, successive_visits = 5", ""},
		{"another URL of visits", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "update origin_visit_stats set url = 'b'", "git a (visits), git b (visits)"},
		{"visits are gone", "insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "delete from origin_visit_stats", "git a"},
		{"who notes them himself", "", "set local scheduler_go.noted = on; insert into origin_visit_stats (url, visit_type) values ('a', 'git'); update origin_visit_stats set last_visit = now()", ""},
		{"he stops", "", "set local scheduler_go.noted = on; set local scheduler_go.noted = off; insert into origin_visit_stats (url, visit_type) values ('a', 'git')", "git a (visits)"},

		{"it is set aside", "", "insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason) values (" + lister + ", 'a', 'git', '', '')", "git a"},
		{"and put back", "insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason) values (" + lister + ", 'a', 'git', '', '')", "delete from scheduler_go.set_aside_origins", "git a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx := testenv.Begin(t, conn)
			testenv.Exec(t, tx, c.before+"; delete from scheduler_go.candidate_changes; "+c.statement)
			got := testenv.Column[string](t, tx, "select visit_type || ' ' || url || case when listed then '' else ' (visits)' end from scheduler_go.candidate_changes")
			slices.Sort(got)
			if noted := strings.Join(got, ", "); noted != c.want {
				t.Errorf("noted %q, want %q", noted, c.want)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
