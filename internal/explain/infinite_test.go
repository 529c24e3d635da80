package explain

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
)

// An infinite date, which can't be read, is named, with what it means and what to do,
// instead of an error of the database's client.
func TestInfiniteDatesAreExplained(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into task (id, type, arguments, next_run, current_interval, status) values
			(1, 'load-git', '{}', 'infinity', '1 day', 'next_run_not_scheduled'), (2, 'load-git', '{}', '-infinity', '1 day', 'next_run_not_scheduled'),
			(3, 'load-git', '{}', now(), '1 day', 'next_run_scheduled')`,
		"insert into task_run (id, task, scheduled, status, backend_id) values (1, 3, '-infinity', 'scheduled', 'x')",
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update) values
			('00000000-0000-0000-0000-000000000001', 'https://far', 'git', '{}', true, now(), 'infinity'),
			('00000000-0000-0000-0000-000000000001', 'https://visited', 'git', '{}', true, now(), null)`,
		"insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) values ('https://visited', 'git', 'infinity', 'successful')",
	)
	x := &Gatherer{Store: store, Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now()}
	task, origin := explanations(t, x, "git")
	for reason, got := range map[string][]Explanation{
		"task.next_run is infinity: the task is never ready": task(1),
		"task.next_run is -infinity: the task is ready":      task(2),
		"task_run.scheduled of run 1 is -infinity":           task(3),
		"listed_origins.last_update for git is infinity":     origin("https://far"),
		"origin_visit_stats.last_visit for git is infinity":  origin("https://visited"),
	} {
		if len(got) != 1 || !strings.Contains(got[0].Summary, "infinite") || len(got[0].Reasons) == 0 || !strings.Contains(strings.Join(got[0].Reasons, "\n"), reason) {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	if _, err := x.Origins(t.Context(), "https://nowhere", ""); err == nil || strings.Contains(err.Error(), "infinite") {
		t.Errorf("an origin that is not there: %v", err)
	}
}
