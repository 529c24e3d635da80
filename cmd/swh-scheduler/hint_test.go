package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// origin hint moves origins of arguments, of a file and of standard input, on a database and through an RPC server.
func TestOriginHint(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	execute(t, dsn, `
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-4000-8000-000000000001', 'gitea', 'a', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-4000-8000-000000000001', 'https://a.example/' || n, 'git', '{}', n <> 4, now(), '2024-01-01Z' from generate_series(1, 6) n`)
	updated := func(date string) string {
		return testenv.Value[string](t, testenv.Connect(t, dsn), "select coalesce(string_agg(right(url, 1), '' order by url), '') from listed_origins where last_update = $1::text::timestamptz", date)
	}
	url := ourServer(t, dsn)
	file := testenv.File(t, "urls", "https://a.example/3\n\nhttps://a.example/9\n")
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
		date   string
		moved  string
	}{
		{[]string{"-d", dsn, "origin", "hint", "--changed-at", "2024-02-01 00:00 UTC", "https://a.example/1", "http://a.example/2.git", "https://a.example/4"}, 0, "2 moved\n1 disabled\n", "", "2024-02-01Z", "12"},
		{[]string{"-d", dsn, "origin", "hint", "--changed-at", "2024-01-15T00:00:00Z", "https://a.example/1"}, 0, "1 have that date or a later one\n", "", "2024-01-15Z", ""},
		{[]string{"-u", url, "origin", "hint", "--file", file, "--changed-at", "2024-03-01T00:00:00Z", "--type", "git", "--source", "mirror"}, 0, "1 moved\n1 unknown\n", "", "2024-03-01Z", "3"},
		{[]string{"-u", url, "origin", "hint", "--changed-at", "2024-04-01T00:00:00Z", "https://a.example/5", "nothing"}, 1, "1 moved\n1 refused\n  'nothing': the URL has no host", "1 hint was refused", "2024-04-01Z", "5"},
		{[]string{"-d", dsn, "origin", "hint", "--output", "json", "--changed-at", "2024-05-01T00:00:00Z", "https://a.example/6"}, 0, `"moved":1`, "", "2024-05-01Z", "6"},
		// What comes before a line that can't be read is hinted and counted.
		{[]string{"-d", dsn, "origin", "hint", "--changed-at", "2024-05-02T00:00:00Z", "--file", testenv.File(t, "broken", "https://a.example/6\nhttps://a.example/\xff\n")}, 1, "1 moved\n", "line 2 of the URLs is not UTF-8", "2024-05-02Z", "6"},
		{[]string{"-d", dsn, "origin", "hint"}, 2, "", "Name URLs, or a file of URLs with '--file'.", "2024-06-01Z", ""},
		{[]string{"-d", dsn, "origin", "hint", "--source", "a b", "https://a.example/6"}, 2, "", "is no name of up to 63", "2024-06-01Z", ""},
	} {
		r := ours(t, c.args...)
		if r.code != c.code || !strings.HasPrefix(strings.ReplaceAll(strings.TrimPrefix(r.stdout, "{"), ": ", ":"), strings.TrimSpace(strings.ReplaceAll(c.stdout, ": ", ":"))) && !strings.Contains(strings.ReplaceAll(r.stdout, " ", ""), c.stdout) || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%q: %+v", c.args, r)
		}
		if got := updated(c.date); got != c.moved {
			t.Errorf("%q moved %q, want %q", c.args, got, c.moved)
		}
	}
	if sources := testenv.Value[string](t, testenv.Connect(t, dsn), "select string_agg(source || moved, ' ' order by source) from scheduler_go.hint_sources"); sources != "cli5 mirror1" {
		t.Errorf("counted are %s", sources)
	}
}
