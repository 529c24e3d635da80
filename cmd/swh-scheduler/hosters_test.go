package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// hosters status shows limits by refusals, and says that none is configured. hosters reset shows such a limit on a
// replica, and forgets it with --confirm.
func TestHostersCommands(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, `insert into scheduler_go.refusing_hosters values
		('git.example.org', 3.5, 'epoch', 10, 'epoch', '2024-02-02T03:04:05Z', 0, 0, 'epoch', 'epoch', 0, '2024-02-02T03:03:05Z', 'too_many', 'HTTP 429', 0, 'epoch', false)`)
	backoff := configFile(t, "hosters: {backoff: {}}\n")
	replica := configFile(t, `scheduler: {cls: postgresql, db: "postgresql://u@127.0.0.1:1/x"}
database: {replica: "`+dsn+`"}
`)
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
		rows           string
	}{
		{[]string{"-d", dsn, "hosters", "status"}, 0, "No hoster has a limit, as the configuration has no hosters.\n", "", "1"},
		{[]string{"-C", backoff, "-d", dsn, "hosters", "status"}, 0, "git.example.org refuses visits (too_many): at most 3 in flight, more from 2024-02-02T03:04:05Z on. HTTP 429", "", "1"},
		{[]string{"-C", replica, "hosters", "reset", "git.example.org"}, 0, "git.example.org refused a visit last at 2024-02-02T03:03:05Z (too_many), and has at most 3 in flight. --confirm forgets that.", "", "1"},
		{[]string{"-C", replica, "hosters", "reset", "git.example.org", "--confirm"}, 1, "", "port=1", "1"},
		{[]string{"-d", dsn, "hosters", "reset"}, 2, "", "Missing argument 'HOSTER'", "1"},
		{[]string{"-d", dsn, "hosters", "reset", "GIT.example.org"}, 1, "", `the hoster "GIT.example.org" refused no visit of late`, "1"},
		{[]string{"-d", dsn, "hosters", "reset", "git.example.org", "--confirm"}, 0, "The refusals of git.example.org are forgotten.\n", "", "0"},
		{[]string{"-d", dsn, "hosters", "reset", "git.example.org", "--confirm"}, 1, "", "refused no visit of late", "0"},
	} {
		r := ours(t, c.args...)
		if r.code != c.code || !strings.Contains(r.stdout, c.stdout) || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%q: %+v", c.args, r)
		}
		if rows := testenv.Value[string](t, testenv.Connect(t, dsn), "select count(*)::text from scheduler_go.refusing_hosters"); rows != c.rows {
			t.Errorf("%q: %s rows, want %s", c.args, rows, c.rows)
		}
	}
}
