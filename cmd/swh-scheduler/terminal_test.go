package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// On a terminal, foreign URLs, names and arguments can't send control sequences, hide or reorder text, or imitate a line
// of the output. A pipe receives them unchanged.
func TestHostileTextOnATerminal(t *testing.T) {
	t.Parallel()
	const hostile = "https://evil/\x1b]0;title\x07\x1b[2J\u009b2K\u202egnp.exe\u2066\u200b\u2028\r\nFORGED 1 failed"
	dsn := testenv.Database(t)
	quoted := "'" + hostile + "'"
	execute(t, dsn, `
		insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor)
			values ('load-git', `+quoted+`, `+quoted+`, '1 day', '1 day', '1 day', 1);
		insert into task (type, arguments, next_run, status, policy) values ('load-git', jsonb_build_object('args', jsonb_build_array(`+quoted+`), 'kwargs', jsonb_build_object(`+quoted+`, 1)), '2030-01-01', 'next_run_scheduled', 'oneshot');
		insert into task_run (task, backend_id, scheduled, metadata, status) values (1, `+quoted+`, '2026-01-01', jsonb_build_object('worker', `+quoted+`), 'scheduled');
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', `+quoted+` || n, 'git', '{}', true, now() from generate_series(1, 4) n`) // each is grabbed once
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	hidden := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x{9f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}]`)
	for _, tc := range []struct {
		raw  bool // a pipe receives it raw: not as Python's repr or JSON
		args []string
	}{
		{true, []string{"task", "list", "-r", "--list-runs-metadata"}}, {true, []string{"task-type", "list"}}, {true, []string{"task-type", "list", "-v"}},
		{true, []string{"origin", "grab-next", "git", "1"}}, {false, []string{"origin", "grab-next", "git", "1", "--output", "json"}}, {true, []string{"origin", "check-listed-origins", "-l", "l", "i"}},
		{true, []string{"explain", hostile + "1"}},
	} {
		piped := ours(t, append([]string{"-C", config}, tc.args...)...)
		if has := strings.Contains(strings.ReplaceAll(piped.stdout, "\r\n", "\n"), "\nFORGED"); piped.code != 0 || has != tc.raw {
			t.Errorf("%q in a pipe: exit code %d, %q", tc.args, piped.code, piped.stdout+piped.stderr)
		}
		shown := onTerminal(t, 300, append([]string{"-C", config}, tc.args...)...)
		shown = strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(shown)
		if !strings.Contains(shown, "evil") {
			t.Errorf("%q: %q", tc.args, shown)
		}
		if at := hidden.FindStringIndex(shown); at != nil {
			t.Errorf("%q shows %q", tc.args, shown[at[0]:])
		}
		if strings.Contains(shown, "\nFORGED") || strings.Contains(shown, "\n\"FORGED") {
			t.Errorf("%q shows a line of somebody else's: %q", tc.args, shown)
		}
	}
}
